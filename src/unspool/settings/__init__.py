"""The one definition of every setting; without torch."""
