"""aevlp methods: what can be trained."""

import json
from collections.abc import Sequence

from aevlp.config.catalogue import method_table, page
from aevlp.config.methods import METHODS, find_method
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.config.schema import recipe_schema
from aevlp.core.errors import UserError
from aevlp.core.options import Parser
from aevlp.core.tables import next_steps, show


def methods(argv: Sequence[str]) -> None:
    """List the methods: what each is, its own options and its paper."""
    parser = Parser("methods", methods.__doc__ or "", "aevlp methods aevlp gr")
    parser.add_argument("names", nargs="*", metavar="NAME", help="methods to list (default: all that have a name)")
    parser.add_argument("--recipe", default="default", metavar="NAME|FILE", help="whose defaults to show (default: default)")
    parser.add_argument(
        "--protocol", choices=["common", "published"], default="common", help="under which protocol (default: common)"
    )
    parser.add_argument("--markdown", action="store_true", help="as a page for documentation (default: false)")
    parser.add_argument("--schema", action="store_true", help="the JSON schema of recipes, for an editor (default: false)")
    given = parser.read(argv)
    if given.schema:
        if given.names or given.markdown:
            raise UserError("--schema: it is of all options; leave names and --markdown out")
        show(json.dumps(recipe_schema(), indent=2))
        return
    values = read_recipe(recipe_file(given.recipe))
    if given.markdown:
        if given.names or given.protocol != "common":
            raise UserError("--markdown: the page has all methods under the common protocol; leave names and --protocol out")
        show(page(given.recipe, values).removesuffix("\n"))
    else:
        chosen = [find_method(name) for name in given.names] or list(METHODS.values())
        show(method_table(chosen, values, given.protocol))
        show(next_steps(["train", "DATA", "--out", "runs/first", "--method", chosen[0].name]))
