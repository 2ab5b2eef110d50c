package feed

import "testing"

func TestStoryLink(t *testing.T) {
	const want = "h.example/a/b?id=7"
	for _, link := range []string{"https://h.example/a/b?id=7", "http://www.h.example/a/b/?id=7", "HTTPS://H.example/a/b?utm_source=rss&id=7&fbclid=x#c"} {
		if got := StoryLink(link); got != want {
			t.Errorf("%s: %s", link, got)
		}
	}
	for _, link := range []string{"", "https://h.example", "https://h.example/?utm_source=rss", "mailto:a@h.example", "/a/b"} {
		if got := StoryLink(link); got != "" {
			t.Errorf("%s: %s", link, got)
		}
	}
	for _, other := range []string{"https://h.example/a/c?id=7", "https://h.example/a/b?id=8", "https://b.h.example/a/b?id=7", "https://h.example/A/b?id=7"} {
		if StoryLink(other) == want {
			t.Errorf("%s counts as the same", other)
		}
	}
}
