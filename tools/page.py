"""Text of what a web server sent, whatever that is."""

import codecs
import re

import html_to_markdown
import httpx2

MAX_BYTES = 512 * 1024
"""Of a page, decompressed. A page that is made to be slow then takes the converter 2 s."""
MAX_DEPTH = 200
"""Nesting of HTML; what is deeper is left out."""

_HTML = ("text/html", "application/xhtml+xml")
_READABLE = re.compile(r"text/.*|application/(.*\+)?(json|xml)|application/(x-)?(javascript|yaml)")
_ENCODINGS = ("", "identity", "gzip", "deflate")
"""One at most: each further one could be a bomb in a bomb."""
_CHARSETS = re.compile(r"utf|ascii|iso8859|cp\d|koi8|gb|big5|shift_jis|euc|johab|hz$|mac|tis")
"""Not all that Python knows: decoding some others takes the square of their length."""
_DECLARED = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]{1,40})", re.IGNORECASE)
_OPTIONS = html_to_markdown.ConversionOptions(skip_images=True, max_depth=MAX_DEPTH)


def refuse_unreadable(response: httpx2.Response) -> None:
    """Refuse an answer that is no text, before its body is read.

    Raises:
        ValueError: Says what it is.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise ValueError(f"The answer is encoded as {encoding[:100]!r}, which is not read.")
    if not _READABLE.fullmatch(_type(response)):
        raise ValueError(f"The answer is of the type {_type(response)[:100]!r}, not text.")


def page_text(data: bytes, response: httpx2.Response) -> str:
    """Return the text of a body, HTML as Markdown.

    Raises:
        ValueError: It is not text.
    """
    is_html = _type(response) in _HTML
    charset = response.charset_encoding or ""
    if not charset and is_html and (declared := _DECLARED.search(data[:4096])):
        charset = declared[1].decode()
    text = data.decode(_codec(charset), errors="replace")
    if "\0" in text:
        raise ValueError("The answer is not text, though it says so.")
    return _markdown(text) if is_html else text


def _markdown(html: str) -> str:
    try:
        return html_to_markdown.convert(html, _OPTIONS).content or ""
    except BaseException as exc:  # a panic of the converter is no Exception
        raise ValueError("The page is HTML that can't be read.") from exc


def _type(response: httpx2.Response) -> str:
    declared: str = response.headers.get("content-type") or "text/plain"
    return declared.partition(";")[0].strip().lower()


def _codec(charset: str) -> str:
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return "utf-8"
    return name if _CHARSETS.match(name) else "utf-8"
