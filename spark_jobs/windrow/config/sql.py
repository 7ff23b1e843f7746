"""Spark SQL in a pipeline file (`where`, `labels`): one expression over known columns, always the same value.

What is refused here would fail in Spark minutes later, or would not give the same rows twice: unknown columns and
struct fields, statements, subqueries, aggregates, generators, functions that are not on the list of `sql_functions`
whatever their quoting, and texts that Spark would read as the current time. Spark's own analysis is the second check
(`windrow.io.expressions`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType

from windrow.config.column_types import ColumnType
from windrow.config.problems import near_miss
from windrow.config.sql_functions import (
    AGGREGATES,
    ALLOWED,
    CHARACTER_SETS,
    CONSTANT_ARGUMENTS,
    GENERATORS,
    STOPPING,
    WINDOWS,
)
from windrow.text import short

_LONGEST = 10_000
_BARE = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp", "current_user", "user"})
"""Functions that Spark also calls without brackets."""
_CHANGING = _BARE | {
    *("rand", "random", "randn", "uuid", "shuffle", "randstr", "uniform"),
    *("now", "curdate", "current_timezone", "session_user", "version"),
    *("current_database", "current_schema", "current_catalog", "current_path"),
    *("monotonically_increasing_id", "spark_partition_id"),
    *("input_file_name", "input_file_block_start", "input_file_block_length"),
    *("reflect", "java_method", "try_reflect", "ai_query"),
}
"""Functions whose value changes from call to call; their message states it. Others are refused as not allowed."""
_CLOCK_WHEN_EMPTY = frozenset({"unix_timestamp", "to_unix_timestamp"})
"""Functions that return the current time if they are called without an argument."""
CLOCK_TEXT = re.compile(r"\s*((now|today|yesterday|tomorrow)(?![a-z])|T?\d{1,2}:\d)", re.IGNORECASE)
"""Spark reads these as an instant of today wherever a constant text becomes a time, also by an implied cast: a word, or
a time of day without a date."""
_BEFORE_BRACKET = frozenset(
    {
        *("and", "or", "not", "in", "is", "between", "like", "ilike", "rlike", "regexp", "escape", "div", "interval"),
        *("case", "when", "then", "else", "from", "for", "as", "distinct", "over"),
        *("decimal", "dec", "numeric", "char", "varchar", "select", "where", "values", "exists"),
    }
)
"""Words in front of a bracket that are not calls; those among them that are not allowed are refused by later steps."""
_CONSTRUCTORS = frozenset({"array", "map", "struct", "named_struct", "pi", "e"})
"""Calls that may be made of constants alone."""
_ELEMENT_FIRST = (exp.ArrayFilter, exp.Transform, exp.Exists)
"""Functions whose lambda has the array's element as its first variable."""
_TEXTS = (exp.TimeToStr, exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.RegexpExtract, exp.Concat, exp.SplitPart)
"""Functions whose value is a text."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Like, exp.ILike, exp.RegexpLike, exp.In)
_WORD = re.compile(r"[^\W\d]\w*")


_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_PATTERNS = frozenset({TokenType.RLIKE, TokenType.LIKE, TokenType.ILIKE})
_PATTERN_STARTS = frozenset({TokenType.STRING, TokenType.L_PAREN})
_WHY_CONSTANT = "one that stands in a record and is wrong would stop the job"


@dataclass(frozen=True)
class Scope:
    """The columns that an expression sees, and the reason why others are refused.

    Args:
        columns: name → type; fields of a column whose type is None are not checked.
        refused: column name → reason.
        refused_fields: field name of any struct → reason.
    """

    columns: Mapping[str, ColumnType | None]
    refused: Mapping[str, str] = field(default_factory=dict)
    refused_fields: Mapping[str, str] = field(default_factory=dict)


def problems_of(text: str, scope: Scope) -> list[str]:
    """Problems of an expression, as sentences; empty for a valid one."""
    if not text.strip():
        return ["is empty; write a Spark SQL expression, or leave the field out"]
    if len(text) > _LONGEST:
        return [f"is longer than {_LONGEST} characters; shorten it"]
    try:
        return _Reading(text, scope).problems()
    except RecursionError:
        return ["is nested too deeply; shorten it"]


def _arguments(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the tokens of each argument of a call; `tokens` begin behind its opening bracket."""
    depth, argument = 0, list[Token]()
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth < 0 or (depth == 0 and token.token_type == TokenType.COMMA):
            yield argument
            argument = []
        else:
            argument.append(token)
        if depth < 0:
            return


def _names_mode(argument: list[Token]) -> bool:
    """Whether an argument has the text `mode`, or a text that is computed and may become it."""
    texts = {token.text.strip().lower() for token in argument if token.token_type == TokenType.STRING}
    words = {token.text.lower() for token in argument if token.token_type != TokenType.STRING}
    return "mode" in texts or any(_WORD.fullmatch(word) and word != "map" for word in words)


def _is_constant(argument: list[Token]) -> bool:
    """Whether an argument is one text or one number."""
    unsigned = argument[1:] if argument and argument[0].token_type == TokenType.DASH else argument
    return len(unsigned) == 1 and unsigned[0].token_type in (TokenType.STRING, TokenType.NUMBER)


def _refers(node: exp.Expr) -> bool:
    """Whether a node contains a column or a lambda's variable; names of fields are neither."""
    if node.find(exp.Column):
        return True
    return any(not _names_a_field(name) for name in node.find_all(exp.Identifier))


def _names_a_field(name: exp.Identifier) -> bool:
    parent = name.parent
    return isinstance(parent, exp.PropertyEQ) or (isinstance(parent, exp.Dot) and parent.expression is name)


class _Reading:
    """One expression against one scope."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text = text
        self.scope = scope
        self.columns = {name.lower(): kind for name, kind in scope.columns.items()}
        self.found: list[str] = []

    def problems(self) -> list[str]:
        """All problems, by step: tokens, syntax, shape, columns. The first step that finds any ends the search."""
        try:
            tokens = Spark().tokenize(self.text)
        except TokenError:
            return [f"{short(self.text)} does not parse: a quote or comment is not closed; close it"]
        self.found += dict.fromkeys(self.token_problems(tokens))
        if self.found:
            return self.found
        try:
            statements = sqlglot.parse(f"SELECT ({self.text}\n)", read=Spark)
        except ParseError as wrong:
            return [self.syntax(wrong)]
        except (
            SqlglotError,
            LookupError,
            TypeError,
            ValueError,
        ) as wrong:  # the parser stumbles over odd argument lists
            return [f"{short(self.text)} does not parse: {str(wrong)[:200]}; correct the expression"]
        root = statements[0]
        if len(statements) != 1 or not isinstance(root, exp.Select) or self.more_than_one(root):
            return ["must be one expression, such as size(clicks) > 0; statements and lists are refused"]
        inner = root.expressions[0]
        self.found += dict.fromkeys(self.shape_problems(inner))
        if not self.found:
            self.visit(inner, {})
        return list(dict.fromkeys(self.found))

    def syntax(self, wrong: ParseError) -> str:
        """The parser's error as a sentence."""
        first = wrong.errors[0] if wrong.errors else {}
        near = str(first.get("highlight") or "").strip()
        reason = str(first.get("description") or "it is not an expression")
        if reason.startswith("Required"):
            reason = "something is missing"
        elif reason.startswith("Expecting"):
            reason = f"{reason[0].lower()}{reason[1:]} is expected".replace("expecting ", "")
        else:
            reason = "unexpected text"
        where = f" near {short(near)}" if near and near != ")" else ""
        return f"{short(self.text)} does not parse{where}: {reason}; write one Spark SQL expression"

    @staticmethod
    def more_than_one(select: exp.Select) -> bool:
        """Whether the text added anything to the `SELECT (…)` around it, such as FROM or a second column."""
        other = [key for key, value in select.args.items() if value and key != "expressions"]
        return bool(other) or len(select.expressions) != 1 or not isinstance(select.expressions[0], exp.Paren)

    def token_problems(self, tokens: list[Token]) -> Iterator[str]:
        """Problems that the tree would no longer show: comments, functions that the parser rewrites."""
        depth = 0
        for position, token in enumerate(tokens):
            before = tokens[position - 1] if position else None
            after = tokens[position + 1] if position + 1 < len(tokens) else None
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth < 0:
                yield f"{short(self.text)} does not parse: a ) without its (; remove it"
                return
            if token.comments or token.token_type == TokenType.HINT:
                yield "holds a comment; comments belong in YAML, after a #"
            if token.token_type == TokenType.SEMICOLON:
                yield "holds a semicolon; write one expression"
            called = after is not None and after.token_type == TokenType.L_PAREN
            empty = called and position + 2 < len(tokens) and tokens[position + 2].token_type == TokenType.R_PAREN
            qualified = before is not None and before.token_type == TokenType.DOT
            if token.token_type in (TokenType.STRING, TokenType.NUMBER) or not _WORD.fullmatch(token.text):
                continue
            if called and (qualified or token.token_type == TokenType.IDENTIFIER):
                yield f"{short(token.text)}( calls a function by a quoted or qualified name; write its plain name"
            elif called:
                yield from self.call_problems(token.text.lower(), empty)
                yield from self.argument_problems(token.text.lower(), list(_arguments(tokens[position + 2 :])))
            elif token.token_type in _PATTERNS and (after is None or after.token_type not in _PATTERN_STARTS):
                yield f"{token.text.lower()} needs a pattern that is written as a constant: {_WHY_CONSTANT}"
            elif token.token_type != TokenType.IDENTIFIER and not qualified:
                word = token.text.lower()
                if word in _BARE and word not in self.columns:
                    yield self.changing(word)
        if depth > 0:
            yield f"{short(self.text)} does not parse: a ( is not closed; close it"

    def call_problems(self, word: str, empty: bool) -> Iterator[str]:
        """Why a function may not be called; `empty`: without arguments."""
        if word in _CHANGING or (empty and word in _CLOCK_WHEN_EMPTY):
            yield self.changing(f"{word}()")
        elif word in AGGREGATES:
            yield self.aggregating(word)
        elif word in GENERATORS:
            yield self.generating(word)
        elif word in WINDOWS:
            yield f"{word}() is a window function; an expression sees one row"
        elif word in STOPPING:
            yield f"{word}() stops the job where the value in a record does not fit; use {STOPPING[word]}"
        elif word not in ALLOWED and word not in _BEFORE_BRACKET:
            near = difflib.get_close_matches(word, ALLOWED, n=1, cutoff=0.7)
            hint = f"did you mean {near[0]}()?" if near else "docs/SEMANTICS.md (rule 15) says which may be called"
            yield f"{word}() is not among the functions that an expression may call; {hint}"

    @staticmethod
    def argument_problems(word: str, arguments: list[list[Token]]) -> Iterator[str]:
        """Arguments of a call that must be constants but are not, or that would let a record stop the job."""
        if word in ("from_json", "from_csv") and any(_names_mode(argument) for argument in arguments[2:]):
            yield f"{word}(): a text that does not fit is NULL or has NULLs; leave the option mode out"
        for position in CONSTANT_ARGUMENTS.get(word, ()):
            if word == "decode" and len(arguments) > 2:  # the other decode, which is a list of cases
                return
            index = position if position >= 0 else len(arguments) + position
            if not 0 <= index < len(arguments):
                continue
            if not _is_constant(arguments[index]):
                yield f"{word}() needs a constant as argument {index + 1}: {_WHY_CONSTANT}"
            elif word in ("decode", "encode") and arguments[index][0].text.lower() not in CHARACTER_SETS:
                known = ", ".join(sorted(CHARACTER_SETS))
                yield f"{word}(): {short(arguments[index][0].text)} is not a character set; write one of: {known}"

    @staticmethod
    def changing(name: str) -> str:
        return f"{name} returns a different value on every call; use the columns of the row, such as _event_time"

    @staticmethod
    def aggregating(name: str) -> str:
        return (
            f"{name}() aggregates over rows, and an expression sees one row; "
            "use size(), aggregate() or array_max() on an array"
        )

    @staticmethod
    def generating(name: str) -> str:
        return f"{name}() makes several rows of one; every left row stays one row"

    def shape_problems(self, root: exp.Expr) -> Iterator[str]:
        """Parts of the tree that are not an expression over one row, or not a pure one."""
        for node in root.walk():
            if isinstance(node, exp.Exists) and isinstance(node.expression, exp.Lambda):
                continue
            if isinstance(node, (exp.Query, exp.Exists)):
                yield "holds a subquery; it sees one row, exists(clicks, c -> …) looks into its arrays"
            elif isinstance(node, exp.Window):
                yield "holds a window function (over …); an expression sees one row"
            elif isinstance(node, exp.AggFunc):
                yield self.aggregating(self.function(node))
            elif isinstance(node, (exp.UDTF, exp.Inline, exp.Stack)):
                yield self.generating(self.function(node))
            elif isinstance(node, (exp.Alias, exp.Aliases, exp.Tuple)):
                yield "must be one value without a name (no AS, no list); its name is the field's"
            elif isinstance(node, exp.Star):
                yield "holds a *; name the columns"
            elif isinstance(node, (exp.Placeholder, exp.Parameter)):
                yield "holds a parameter; write the value itself"
            elif isinstance(node, exp.Cast) and "INTERVAL" in node.to.sql("spark").upper():
                yield (
                    "casts to an interval, which stops the job where a text is not an interval; use try_make_interval()"
                )
            elif self.is_computed_constant(node):
                yield f"{short(node.sql('spark'))} is computed from constants alone; write its value"

    @staticmethod
    def is_computed_constant(node: exp.Expr) -> bool:
        """Whether it could make a text that Spark, folding constants, reads as the current time.

        >>> is_constant = _Reading.is_computed_constant
        >>> [is_constant(sqlglot.parse_one(text, read="spark")) for text in ("concat('no', 'w')", "concat('no', b)")]
        [True, False]
        """
        if not isinstance(node, (exp.Func, exp.DPipe, exp.Bracket, exp.Dot)) or _refers(node):
            return False
        if isinstance(node, (exp.Connector, exp.Predicate)) or _Reading.function(node) in _CONSTRUCTORS:
            return False
        if isinstance(node, (exp.Cast, exp.TryCast)):
            return node.is_type(*exp.DataType.TEXT_TYPES) or not isinstance(node.this, (exp.Literal, exp.Neg))
        return not isinstance(node, (exp.Array, exp.Map, exp.VarMap, exp.Struct, exp.Interval))

    @staticmethod
    def function(node: exp.Expr) -> str:
        if isinstance(node, exp.Anonymous):
            return str(node.this).lower()
        return node.sql_name().lower() if isinstance(node, exp.Func) else ""

    # --- columns: each of these returns the type of the node, or None if it is not known, and adds problems to `found`

    def visit(self, node: exp.Expr, bound: Mapping[str, ColumnType | None]) -> ColumnType | None:
        """Check a node and all below it.

        Args:
            bound: variables of the lambdas around the node, in lower case → their types.
        """
        if isinstance(node, exp.Literal):
            return self.literal(node)
        if isinstance(node, _COMPARISONS):
            return self.comparison(node, bound)
        if isinstance(node, exp.Column):
            return self.column(node, bound)
        if isinstance(node, exp.Identifier):
            return bound.get(node.name.lower())
        if isinstance(node, exp.Paren):
            return self.visit(node.this, bound)
        if isinstance(node, exp.Dot):
            return self.dot(node, bound)
        if isinstance(node, exp.Bracket):
            kind = self.visit(node.this, bound)
            self.children(node, bound, skip=node.this)
            return kind.inner[-1] if kind and kind.name in ("array", "map") else None
        if any(isinstance(argument, exp.Lambda) for argument in self.arguments(node)):
            return self.higher_order(node, bound)
        self.children(node, bound)
        return ColumnType("string") if isinstance(node, _TEXTS) else None

    @staticmethod
    def arguments(node: exp.Expr) -> Iterator[exp.Expr]:
        """Child nodes, the first argument of a function first."""
        for value in node.args.values():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, exp.Expr):
                    yield one

    def children(self, node: exp.Expr, bound: Mapping[str, ColumnType | None], skip: object = None) -> None:
        for argument in self.arguments(node):
            if argument is not skip:
                self.visit(argument, bound)

    def literal(self, node: exp.Literal) -> ColumnType | None:
        if node.is_string and CLOCK_TEXT.match(node.this):
            self.found.append(self.changing(f"'{node.this}'"))
        return None

    def comparison(self, node: exp.Expr, bound: Mapping[str, ColumnType | None]) -> ColumnType | None:
        """A comparison. With a text column, 'today' is a word and not a day, because nothing is cast to a time."""
        literals = [part for part in self.arguments(node) if isinstance(part, exp.Literal)]
        kinds = [self.visit(part, bound) for part in self.arguments(node) if part not in literals]
        if not any(kind and kind.name == "string" for kind in kinds):
            for part in literals:
                self.literal(part)
        return ColumnType("boolean")

    def dot(self, node: exp.Dot, bound: Mapping[str, ColumnType | None]) -> ColumnType | None:
        kind = self.visit(node.this, bound)
        if isinstance(node.expression, exp.Identifier):
            return self.of_field(kind, node.this.sql("spark"), node.expression.name)
        self.visit(node.expression, bound)
        return None

    def higher_order(self, node: exp.Expr, bound: Mapping[str, ColumnType | None]) -> ColumnType | None:
        """A function with lambdas. Variables that are elements of its first array get the element's type."""
        arguments = list(self.arguments(node))
        kind = self.visit(arguments[0], bound)
        element = kind.inner[0] if kind and kind.name == "array" else None
        for argument in arguments[1:]:
            if not isinstance(argument, exp.Lambda):
                self.visit(argument, bound)
                continue
            names = [parameter.name.lower() for parameter in argument.expressions]
            kinds: dict[str, ColumnType | None] = dict.fromkeys(names)
            if isinstance(node, _ELEMENT_FIRST) or self.function(node) == "forall":
                kinds[names[0]] = element
            elif isinstance(node, exp.ArraySort):
                kinds = dict.fromkeys(names, element)
            elif isinstance(node, exp.Reduce) and len(names) == 2:
                kinds[names[1]] = element
            self.visit(argument.this, {**bound, **kinds})
        return kind if isinstance(node, (exp.ArrayFilter, exp.ArraySort)) else None

    def column(self, node: exp.Column, bound: Mapping[str, ColumnType | None]) -> ColumnType | None:
        """A column or lambda variable, with the fields that are named behind it."""
        root, *fields = [part.name for part in node.parts]
        low = root.lower()
        if low in bound:
            kind = bound[low]
        elif low in self.columns:
            kind = self.columns[low]
        else:
            refused = {name.lower(): reason for name, reason in self.scope.refused.items()}.get(low)
            unknown = f"unknown column {short(root)}; {near_miss(root, self.scope.columns, 'columns are')}"
            self.found.append(f"column {short(root)}: {refused}" if refused else unknown)
            return None
        for name in fields:
            kind = self.of_field(kind, root, name)
            root = f"{root}.{name}"
        return kind

    def of_field(self, kind: ColumnType | None, owner: str, name: str) -> ColumnType | None:
        """Type of a field; of an array of structs, as in Spark, the array of that field's values."""
        if kind is None:
            return None
        if kind.name == "array":
            of_element = self.of_field(kind.inner[0], owner, name)
            return ColumnType("array", inner=(of_element,)) if of_element else None
        if kind.name == "map":
            return kind.inner[1]
        if kind.name != "struct":
            self.found.append(f"{short(owner)} is {kind} and has no field {short(name)}; use it as it is")
            return None
        if name.lower() in self.scope.refused_fields:
            self.found.append(f"field {short(name)}: {self.scope.refused_fields[name.lower()]}")
            return None
        for known, inner in zip(kind.fields, kind.inner, strict=True):
            if known.lower() == name.lower():
                return inner
        self.found.append(f"{short(owner)} has no field {short(name)}; {near_miss(name, kind.fields, 'fields are')}")
        return None
