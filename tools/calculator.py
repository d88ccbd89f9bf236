"""Arithmetic for a model: exact, bounded, and without `eval`.

Every value is a `Fraction`, so 0.1 + 0.2 is 0.3. A value is rounded only if it has no exact form
(the root of 2) or an unreasonably long one, and then to more digits than are ever shown. Every
size is checked before the work is done, so no expression takes more than a moment.
"""

import ast
import math
import operator
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

from perdure.agents.tool import tool

MAX_CHARACTERS = 500
"""Length of an expression."""
MAX_DEPTH = 250
"""Nesting of an expression: enough for a sum of as many terms as fit into `MAX_CHARACTERS`."""
MAX_DIGITS = 1000
"""Decimal digits of any value on the way, above or below the fraction bar."""
MAX_ROUND_DIGITS = 100
"""Digits that `round` may be asked for."""
MAX_LONG_EXPONENT = 10**12
"""Exponent of a power that cannot be exact; `_PRECISE` loses as many digits as this has."""
SHOWN_DIGITS = 28
"""Significant digits of a result that is not a whole number."""

_MAX_BITS = math.ceil(MAX_DIGITS * math.log2(10))
_TOO_LARGE = f"A value in the expression is beyond {MAX_DIGITS} digits; it is not calculated."
_ZERO_DIVISION = "The expression divides by zero."
_SHOWN = Context(prec=SHOWN_DIGITS, Emin=-10 * MAX_DIGITS, Emax=10 * MAX_DIGITS)
_PRECISE = Context(prec=2 * SHOWN_DIGITS, Emin=-10 * MAX_DIGITS, Emax=10 * MAX_DIGITS)


@tool(effect="read")
def calculate(expression: str) -> str:
    """Calculate the value of an arithmetic expression.

    Knows + - * / // % ** and parentheses, and the functions sqrt(x), abs(x), round(x),
    round(x, digits), min(a, b, ...) and max(a, b, ...). Whole numbers are given in full, others
    with up to 28 significant digits. There are no variables, units or thousands separators.

    Args:
        expression: The expression, such as "(1.5 + 2) * 3 ** 2" or "sqrt(2) / 2".

    Returns:
        The value in decimal notation.

    Raises:
        ValueError: The expression is not understood, has no real value, or is too large.
    """
    source = expression.strip()
    if not source:
        raise ValueError("The expression is empty.")
    if len(source) > MAX_CHARACTERS:
        raise ValueError(f"The expression is longer than {MAX_CHARACTERS} characters.")
    if not source.isascii():
        raise ValueError("Write the expression in ASCII: * for times, / for divided by, - minus.")
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"{source!r} is not an arithmetic expression.") from error
    return _shown(_value(tree.body, source, MAX_DEPTH))


def _value(node: ast.expr, source: str, depth: int) -> Fraction:
    if not depth:
        raise ValueError(f"The expression is nested more than {MAX_DEPTH} levels deep.")
    match node:
        case ast.Constant():
            return _number(node, source)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, source, depth - 1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, source, depth - 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            combine = _OPERATORS[type(op)]
            values = _value(left, source, depth - 1), _value(right, source, depth - 1)
            return _bounded(combine(*values))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            function, fewest, most = _FUNCTIONS[name]
            if not fewest <= len(arguments) <= most:
                raise ValueError(f"{name}() cannot take {len(arguments)} numbers.")
            return _bounded(function(*[_value(item, source, depth - 1) for item in arguments]))
        case _:
            raise ValueError(_refusal(node, source))


def _number(node: ast.Constant, source: str) -> Fraction:
    """Read a number from its text: a float would already have lost digits."""
    if type(node.value) is int:
        return _bounded(Fraction(node.value))
    if type(node.value) is not float:
        raise ValueError(_refusal(node, source))
    written = Decimal(source[node.col_offset : node.end_col_offset])
    # Before it becomes a fraction: 1e999999999 would be one of a billion digits.
    if written and abs(written.adjusted()) >= MAX_DIGITS:
        raise ValueError(_TOO_LARGE)
    return _bounded(Fraction(written))


def _refusal(node: ast.expr, source: str) -> str:
    part = ast.get_source_segment(source, node)
    match node:
        case ast.BinOp(op=ast.BitXor()):
            return f"^ in {part!r} is not supported; write ** for a power."
        case ast.Tuple():
            return f"{part!r} is not one number; write numbers without thousands separators."
        case ast.Name() | ast.Call():
            known = ", ".join(sorted(_FUNCTIONS))
            return f"{part!r} is not known; there are no variables, and the functions are {known}."
        case _:
            return f"{part!r} is not supported; use numbers, + - * / // % ** and parentheses."


def _bounded(value: Fraction) -> Fraction:
    """Return a value of bounded size: as it is, or rounded if only its digits are many."""
    above, below = value.numerator.bit_length(), value.denominator.bit_length()
    if max(above, below) <= _MAX_BITS:
        return value
    if abs(above - below) >= _MAX_BITS:
        raise ValueError(_TOO_LARGE)
    return Fraction(_rounded(value, _PRECISE))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if not base and exponent < 0:
        raise ValueError(_ZERO_DIVISION)
    if not exponent or base == 1:
        return Fraction(1)
    if not base:
        return base
    times, root = exponent.numerator, exponent.denominator
    if root == 1:
        return _whole_power(base, times)
    if base < 0:
        raise ValueError("A fractional power of a negative number is not a real number.")
    above, below = _exact_root(base.numerator, root), _exact_root(base.denominator, root)
    if above is not None and below is not None:
        return _whole_power(Fraction(above, below), times)
    return _rounded_power(base, exponent)


def _whole_power(base: Fraction, exponent: int) -> Fraction:
    if abs(base) == 1:
        return base if exponent % 2 else Fraction(1)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    # Twice the limit, since bits overstate the size: a whole result within it is never rounded.
    if bits * abs(exponent) <= 2 * _MAX_BITS:
        return base**exponent
    size = _rounded_power(abs(base), Fraction(exponent))
    return -size if base < 0 and exponent % 2 else size


def _rounded_power(base: Fraction, exponent: Fraction) -> Fraction:
    """Return a power of a positive base, rounded; refuse a large one before calculating it."""
    digits = math.log10(base.numerator) - math.log10(base.denominator)
    if abs(exponent) > MAX_LONG_EXPONENT or abs(digits * float(exponent)) > MAX_DIGITS:
        raise ValueError(_TOO_LARGE)
    return Fraction(_PRECISE.power(_rounded(base, _PRECISE), _rounded(exponent, _PRECISE)))


def _exact_root(value: int, root: int) -> int | None:
    """Return the whole number whose power `root` is the positive `value`, if there is one."""
    if root > value.bit_length():  # also keeps the powers below small
        return 1 if value == 1 else None
    low, high = 1, 1 << value.bit_length() // root + 1
    while low < high:
        middle = (low + high) // 2
        if middle**root < value:
            low = middle + 1
        else:
            high = middle
    return low if low**root == value else None


def _round(value: Fraction, digits: Fraction = Fraction(0)) -> Fraction:
    """Round half to even, as Python does."""
    if digits.denominator != 1 or abs(digits) > MAX_ROUND_DIGITS:
        raise ValueError(f"round() takes a whole number of digits up to {MAX_ROUND_DIGITS}.")
    return Fraction(round(value, int(digits)))


def _sqrt(value: Fraction) -> Fraction:
    if value < 0:
        raise ValueError("The square root of a negative number is not a real number.")
    return _power(value, Fraction(1, 2))


def _unless_zero(
    divide: Callable[[Fraction, Fraction], Fraction | int],
) -> Callable[[Fraction, Fraction], Fraction]:
    def divided(left: Fraction, right: Fraction) -> Fraction:
        if not right:
            raise ValueError(_ZERO_DIVISION)
        return Fraction(divide(left, right))

    return divided


def _rounded(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _shown(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    rounded = _rounded(value, _SHOWN).normalize(_SHOWN)
    if abs(rounded.adjusted()) < SHOWN_DIGITS:
        return format(rounded, "f")
    return str(rounded).lower()


_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _unless_zero(operator.truediv),
    ast.FloorDiv: _unless_zero(operator.floordiv),
    ast.Mod: _unless_zero(operator.mod),
    ast.Pow: _power,
}

_FUNCTIONS: dict[str, tuple[Callable[..., Fraction], int, int]] = {
    # name: (function, fewest arguments, most arguments)
    "abs": (abs, 1, 1),
    "max": (lambda *values: max(values), 1, MAX_CHARACTERS),
    "min": (lambda *values: min(values), 1, MAX_CHARACTERS),
    "round": (_round, 1, 2),
    "sqrt": (_sqrt, 1, 1),
}
