"""What is known about a model's run: its parts, its training curves, and its X-ray."""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from unspool.runtime.network import count_parameters
from unspool.server.answers import HEADERS, Asked, answer
from unspool.server.models import ServedModel, find_model
from unspool.server.refusals import RefusalError
from unspool.server.run_files import PAGES, has_file, read_curves, read_file
from unspool.server.service import Service
from unspool.server.traces import MOST_STEPS, SHOWN, channels

#: A report has its scripts inside. It gets an origin of its own, and can reach nothing.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: What writes a page of a run.
WRITERS = {"xray": "`unspool xray RUN` writes it", "timeline": "A training with `xray_every` writes it"}
#: Seconds for which a link to a report works.
LINK_SECONDS = 60


async def show_about(service: Service, asked: Asked) -> Response:
    """What a model reads and predicts, of what it consists, and which pages its run has."""
    return answer(describe(find_model(service.models, asked.names["model"]), service.settings.max_tokens))


async def show_curves(service: Service, asked: Asked) -> Response:
    """The curves of a model's training."""
    model = find_model(service.models, asked.names["model"])
    return answer(await asyncio.to_thread(read_curves, model.player.run))


async def show_report(service: Service, asked: Asked) -> Response:
    """A page of a model's run: `xray` or `timeline`."""
    return await _report(find_model(service.models, asked.names["model"]), asked.names["page"])


async def link_report(service: Service, asked: Asked) -> Response:
    """A link to a page of a model's run, which works for a minute and without a token, as browsers open it."""
    model, page = find_model(service.models, asked.names["model"]), asked.names["page"]
    if not has_file(model.player.run, page):
        raise _no_page(page)
    ends = int(time.time()) + LINK_SECONDS
    signature, name = _sign(service, model.name, page, ends), quote(model.name, safe="")
    return answer({"url": f"/v1/pages/{name}/{page}/{ends}.{signature}"})


async def show_linked_report(service: Service, asked: Asked) -> Response:
    """The page that a link is for."""
    name, page, ticket = (asked.names[part] for part in ("model", "page", "ticket"))
    ends, _, signature = ticket.partition(".")
    good = ends.isascii() and ends.isdigit() and len(ends) < 12
    expected = _sign(service, name, page, int(ends) if good else 0)
    if not good or int(ends) < time.time() or not hmac.compare_digest(expected.encode(), signature.encode()):
        raise RefusalError(404, "The link has expired. Open the page again.", "link_expired")
    return await _report(find_model(service.models, name), page)


def describe(model: ServedModel, most: int) -> dict[str, Any]:
    """What the page needs to know about a model, and how many tokens it may ask for."""
    player, usage = model.player, model.player.task.usage()
    shown = [{**one._asdict(), "shown": min(one.units, SHOWN)} for one in channels(player)]
    own = player.config["model"]
    return {
        **{"id": model.name, "task": player.task.name, "generates": model.generates, "streams": model.streams},
        **{"reads": usage.reads, "unit": usage.unit, "outputs": list(usage.outputs)},
        **{"features": list(usage.features), "horizon": usage.horizon, "season": usage.season},
        "scales": [{"mean": mean, "deviation": deviation} for mean, deviation in usage.scales],
        "limits": {"tokens": most, "traced": min(most, MOST_STEPS)},
        **{"cell": str(own.get("cell", "")), "parameters": count_parameters(player.network), "channels": shown},
        "pages": [page for page in PAGES if has_file(player.run, page)],
    }


async def _report(model: ServedModel, page: str) -> Response:
    data = await asyncio.to_thread(read_file, model.player.run, page)
    if data is None:
        raise _no_page(page)
    headers = {**HEADERS, "content-security-policy": REPORT_POLICY, "referrer-policy": "no-referrer"}
    return Response(data, 200, headers, "text/html; charset=utf-8")


def _no_page(page: str) -> RefusalError:
    if page not in PAGES:
        message = f"{page[:40]!r} is not a page of a run. Those that there may be: {', '.join(PAGES)}."
    else:
        message = f"The run has no {PAGES[page]} yet. {WRITERS[page]}."
    return RefusalError(404, message, "page_not_found", "page")


def _sign(service: Service, name: str, page: str, ends: int) -> str:
    """A signature that only who has the server's tokens can make: several workers have the same."""
    return hmac.digest(service.link_key, f"{name}\n{page}\n{ends}".encode(), "sha256").hex()
