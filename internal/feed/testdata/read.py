"""Reads documents as JSON from standard input, and prints what feedparser finds in each of them."""
import base64, json, sys
import feedparser


def date(e):
    at = e.get("published_parsed") or e.get("updated_parsed")
    return "%04d-%02d-%02dT%02d:%02d:%02dZ" % at[:6] if at else ""


def text(detail):
    return {"type": detail.get("type", ""), "value": detail.get("value", "")}


def pages(e):
    return [l.get("href", "") for l in e.get("links", []) if l.get("rel") == "alternate"]


def item(e):
    summary = text(e.get("summary_detail", {}))
    return {
        "id": e.get("id", ""), "title": text(e.get("title_detail", {})), "link": e.get("link", ""), "pages": pages(e),
        "date": date(e), "summary": summary, "text": text(e.content[0]) if e.get("content") else summary,
        "authors": [a.get("name") or a.get("email", "") for a in e.get("authors", [])],
        "enclosures": [l.get("href", "") for l in e.get("enclosures", [])],
    }


def document(d):
    headers = {"content-location": "https://example.org/feed"}
    if d["Type"]:
        headers["content-type"] = d["Type"]
    try:
        f = feedparser.parse(base64.b64decode(d["Bytes"]), response_headers=headers, sanitize_html=False)
    except AssertionError as e:  # of the module with which feedparser reads markup
        return {"fault": str(e)}
    return {
        "id": f.feed.get("id", ""), "title": text(f.feed.get("title_detail", {})), "link": f.feed.get("link", ""),
        "pages": pages(f.feed), "isknown": bool(f.get("version")), "items": [item(e) for e in f.entries],
    }


json.dump([document(d) for d in json.load(sys.stdin)], sys.stdout)
