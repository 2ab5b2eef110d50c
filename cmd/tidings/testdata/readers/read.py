"""Prints what feedparser finds in the documents at some addresses."""
import json, sys, time
import feedparser


def date(e, *names):
    for n in names:
        if e.get(n):
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", e[n])
    return ""


def content(e):
    full = [c.value for c in e.get("content", [])]
    summary = [] if e.get("summary", "") in full else [e.get("summary", "")]  # feedparser copies it from the content
    return "\n".join(summary + full + [m.get("url", "") for m in e.get("media_content", [])])


def document(address):
    d = feedparser.parse(address)
    return {
        "title": d.feed.get("title", ""), "link": d.feed.get("link", ""), "fault": "" if d.version else "no feed",
        "items": [{
            "title": e.get("title", ""), "link": e.get("link", ""), "date": date(e, "published_parsed", "updated_parsed"),
            "authors": [a.get("name", "") for a in e.get("authors", [])],
            "enclosures": ["%s %s %s" % (l.get("href"), l.get("type"), l.get("length")) for l in e.get("enclosures", [])],
            "content": content(e),
        } for e in d.entries],
    }


json.dump([document(a) for a in sys.argv[1:]], sys.stdout)
