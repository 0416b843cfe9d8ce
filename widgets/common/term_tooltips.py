"""Tool tips that explain terms."""

from __future__ import annotations


def term_tip(label: str, term: str, explanation: str, hint: str = "") -> str:
    """The tool tip of a label that uses a term; "" if there is no explanation.

    The term is named if the label uses other words: "Keep best" is about retention.
    """
    if not explanation:
        return hint
    prefix = "" if term.casefold() in label.casefold() else f"{term[:1].upper()}{term[1:]}: "
    return f"{prefix}{explanation}" + (f"\n{hint}" if hint else "")
