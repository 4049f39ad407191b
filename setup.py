"""Puts the kernels of the built-in cells into a wheel; all else about the package is in pyproject.toml."""

import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

SOURCE = Path(__file__).parent / "src"


def load_wheel() -> ModuleType:
    """unspool.engine.wheel alone: the package around it would import NumPy, which need not be here."""
    sys.path.insert(0, str(SOURCE))
    package = ModuleType("unspool.engine")
    package.__path__ = [str(SOURCE / "unspool" / "engine")]
    sys.modules["unspool.engine"] = package
    return import_module("unspool.engine.wheel")


wheel = load_wheel()


class WithKernels(Distribution):
    """For one platform, if kernels can be compiled."""

    def has_ext_modules(self) -> bool:
        return not wheel.why_none()


class BuildModules(build_py):
    """The modules and, but for an editable install, the kernels."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        if why := wheel.why_none():
            warnings.warn(f"{why}: this wheel has no kernels of the built-in cells.", stacklevel=1)
            return
        wheel.compile_kernels(Path(self.build_lib, "unspool", "engine", "kernels"))


class AnyPython(bdist_wheel):
    """Kernels are called by ctypes, so that a wheel is for every Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(distclass=WithKernels, cmdclass={"build_py": BuildModules, "bdist_wheel": AnyPython})
