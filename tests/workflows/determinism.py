"""What workflow code must not do, found in its source: anything that a replay could see differ."""

import ast
from collections.abc import Iterator

BANNED_MODULES = {
    "threading",
    "multiprocessing",
    "concurrent",
    "os",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "time",
    "uuid",
}
BANNED_CALLS = {
    "asyncio.as_completed",
    "asyncio.to_thread",
    "asyncio.wait",
    "date.today",
    "datetime.now",
    "datetime.today",
    "datetime.utcnow",
    "hash",
    "id",
    "input",
    "open",
}
"""`asyncio.wait` and `as_completed` iterate over sets; `hash` and `id` differ in each process."""
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
IN_ANY_ORDER = {"any", "all", "bool", "frozenset", "len", "max", "min", "set", "sorted", "sum"}
"""Whose result does not depend on the order of what they are given."""


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SystemError:
        # CPython 3.11 miscounts its own depth now and then: python/cpython#106905.
        return ast.parse(source)


def faults(source: str) -> list[str]:
    """Return what the source must not do, with its line."""
    tree = _parsed(source)
    sets = _names_of_sets(tree)
    unordered = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in IN_ANY_ORDER
    }
    found = [
        f"{node.lineno}: iterates over a set"
        for node, iterated in _iterations(tree)
        if _is_set(iterated, sets) and id(iterated) not in unordered and id(node) not in unordered
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.removeprefix("datetime.") in BANNED_CALLS or called in BANNED_CALLS:
                found.append(f"{node.lineno}: calls {called}")
        found += [
            f"{node.lineno}: imports {module}"  # type: ignore[attr-defined]
            for module in _imported(node)
            if module.partition(".")[0] in BANNED_MODULES
        ]
    return found


def _iterations(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr]]:
    """Yield what iterates, with what it iterates over."""
    for node in ast.walk(tree):
        match node:
            case ast.For() | ast.AsyncFor():
                yield node, node.iter
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                yield from ((node, each.iter) for each in node.generators)
            case ast.Starred():
                yield node, node.value
            case ast.Call(args=[ast.expr() as only, *_]) if ast.unparse(node.func) in (
                "dict",
                "enumerate",
                "iter",
                "list",
                "map",
                "next",
                "tuple",
                "zip",
            ) or ast.unparse(node.func).endswith((".join", ".extend", ".gather")):
                yield node, only if len(node.args) == 1 else node.args[-1]


def _is_set(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Attribute():
            return ast.unparse(node) in names
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in SET_METHODS
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            both = (node.left, node.right)
            return any(_is_set(each, names) or _is_keys(each) for each in both)
        case _:
            return False


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".keys", ".items"))


def _names_of_sets(tree: ast.AST) -> set[str]:
    """Return the variables and attributes that hold sets, wherever they stand."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value) if _is_set(value, found):
                found.update(ast.unparse(target) for target in targets)
            case ast.AnnAssign(target=target, annotation=kind) if _is_kind_of_set(kind):
                found |= {ast.unparse(target), f"self.{ast.unparse(target)}"}
            case ast.arg(arg=name, annotation=ast.expr() as kind) if _is_kind_of_set(kind):
                found.add(name)
    return found


def _is_kind_of_set(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).strip("'\"").startswith(("set", "frozenset", "AbstractSet"))


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [each.name for each in names]
        case ast.ImportFrom(module=str() as module):
            return [module]
        case _:
            return []
