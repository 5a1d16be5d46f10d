"""aevlp store: the stored embeddings of views and features."""

from collections.abc import Sequence

from aevlp.core.errors import UserError, require
from aevlp.core.options import Parser
from aevlp.core.remote import local_path
from aevlp.core.tables import show
from aevlp.store.location import store_root

STORE_ACTIONS = {
    "list": "List the stored embeddings: their model, images, size and last use.",
    "verify": "Read all stored embeddings and name the damaged files.",
    "prune": "Remove stored embeddings by key or by age, except those in use.",
}


def store(argv: Sequence[str]) -> None:
    """List, verify or prune the stored embeddings."""
    parser = Parser("store", store.__doc__ or "", "aevlp store list")
    actions = "; ".join(f"{name}: {text[:-1]}" for name, text in STORE_ACTIONS.items())
    parser.add_argument("action", choices=STORE_ACTIONS, help=f"{actions}. aevlp store ACTION --help lists its options")
    action = parser.parse_args(argv[:1]).action

    parser = Parser(f"store {action}", STORE_ACTIONS[action])
    if action != "list":
        every = "" if action == "prune" else " (default: all)"
        parser.add_argument("keys", nargs="*", metavar="KEY", help=f"keys of stores as listed; each may be shortened{every}")
    parser.add_argument(
        "--store", metavar="DIR", help="folder of the stores (default: ~/.cache/aevlp/views, or $AEVLP_CACHE/views)"
    )
    if action == "prune":
        parser.add_argument(
            "--unused-for",
            type=float,
            metavar="DAYS",
            help="only what no run has used for this long (default: any)",
        )
        parser.add_argument(
            "--yes", action="store_true", help="remove them; without it, only say what would be removed (default: false)"
        )
    given = parser.read(argv[1:])
    root = store_root(given.store)
    if root is None:
        raise UserError("--store none: there is no store to read; name a folder")
    local_path(root)
    if action == "prune":
        if not given.keys and given.unused_for is None:
            raise UserError("store prune: say what to remove: KEY... (aevlp store list shows them), --unused-for DAYS, or both")
        require(given.unused_for is None or given.unused_for >= 0, "unused-for", "at least 0", given.unused_for)

    from aevlp.store import inventory

    found = inventory.stores(root)
    if action == "list":
        show(inventory.table(root, found) if found else f"{root}: nothing is stored yet")
        return
    chosen = inventory.chosen(found, given.keys)
    if action == "prune":
        show(inventory.prune(root, chosen, given.unused_for, yes=given.yes))
        return
    result = inventory.verify(chosen)
    show(inventory.render(result))
    if result.damaged:
        raise UserError(
            f"{root}: {inventory.counted(len(result.damaged), 'damaged file')} (listed above); "
            "the next run computes damaged packs again and writes a damaged manifest anew; or remove the store with "
            "aevlp store prune KEY"
        )
