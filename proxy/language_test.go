package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"tidings/internal/locale"
)

// everyPage holds the addresses of all pages of newFullServer.
var everyPage = []string{
	"/?still", "/show?url=" + url.QueryEscape(rssURL), "/show?new=1&url=" + url.QueryEscape(rssURL), "/show?url=" + url.QueryEscape(changedPage),
	"/add?url=" + url.QueryEscape(rssURL), "/subscriptions", "/subscriptions?q=nothing", "/lists", nodePath, "/channels", "/channels?filter=nothing",
	"/network", "/network?channel=" + url.QueryEscape(rssURL), NotifyPath + "?dead=b", watchPath + "?q=bridge", watchPath + "?all=solar+battery&none=advert", "/nowhere",
}

// In the language for developers, every word that does not come from a feed, a person or the network is marked.
func TestEveryTextOfAPageCanBeTranslated(t *testing.T) {
	b := newFullServer(t)
	for _, path := range everyPage {
		page := body(t, b.ask("GET", path, "Cookie", languageCookie+"="+locale.Pseudo.Tag, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"))
		root, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		depth := 0
		for _, text := range unmarked(root, &depth) {
			t.Errorf("%s: %q is in no catalogue", path, text)
		}
	}
}

// unmarked returns the texts of a page that are not marked, except for data: what a feed, a person or the network says is in
// elements of its own direction or language. depth counts the marks that are open.
func unmarked(n *html.Node, depth *int) (found []string) {
	isData := attr(n, "dir") == "auto" || attr(n, "lang") != "" && n.Data != "html" || slices.Contains([]string{"bdi", "code", "kbd", "time", "title", "datalist"}, n.Data)
	for _, name := range []string{"aria-label", "title", "alt"} {
		if value, inside := attr(n, name), 0; !isData && hasUnmarkedWords(value, &inside) {
			found = append(found, name+"="+value)
		}
	}
	if n.Type == html.TextNode && hasUnmarkedWords(n.Data, depth) {
		found = append(found, n.Data)
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		if inner := unmarked(child, depth); !isData {
			found = append(found, inner...)
		}
	}
	return found
}

// hasUnmarkedWords reports whether a text has letters outside of ⟦ and ⟧, other than the name of the program and λ.
func hasUnmarkedWords(text string, depth *int) (found bool) {
	for _, r := range strings.NewReplacer("tidings", "", "λ", "").Replace(text) {
		switch {
		case r == '⟦':
			*depth++
		case r == '⟧':
			*depth--
		case *depth == 0 && unicode.IsLetter(r):
			found = true
		}
	}
	return found
}

// A person gets the pages in the language of the browser, or the one that was chosen on a page.
func TestPeopleChooseTheLanguage(t *testing.T) {
	b := newTestServer(t)
	if page := body(t, b.ask("GET", "/", "Accept-Language", "de-CH, de;q=0.9")); !strings.Contains(page, `<html lang="de">`) || !strings.Contains(page, "Erste Schritte") {
		t.Errorf("for a German browser: %.300s", page)
	}
	r := request("POST", languagePath, strings.NewReader(url.Values{"language": {"de"}, "back": {"/lists"}}.Encode()), "Content-Type", "application/x-www-form-urlencoded")
	answer := b.send(r)
	cookies := answer.Cookies()
	if len(cookies) != 1 || answer.StatusCode != 303 || answer.Header.Get("Location") != "/lists" {
		t.Fatal(answer.StatusCode, answer.Header)
	}
	if page := body(t, b.ask("GET", "/", "Accept-Language", "en", "Cookie", cookies[0].String())); !strings.Contains(page, `<html lang="de">`) {
		t.Errorf("after the choice: %.300s", page)
	}
	if page := body(t, b.ask("GET", "/nowhere", "Accept-Language", "de", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")); !strings.Contains(page, "Dieser Knoten hat keine Seite") {
		t.Errorf("an error: %.2000s", page)
	}
}

// A form with a language that does not exist is refused, and a cookie with one counts for nothing. The person stays on the page.
func TestOnlyLanguagesOfTheCatalogueCanBeChosen(t *testing.T) {
	b := newTestServer(t)
	choose := func(language, back string) *http.Response {
		form := url.Values{"language": {language}, "back": {back}}.Encode()
		return b.send(request("POST", languagePath, strings.NewReader(form), "Content-Type", "application/x-www-form-urlencoded"))
	}
	for _, wrong := range []string{"fr", "de-AT", "DE", "en\r\nX: y"} {
		if answer := choose(wrong, "/"); answer.StatusCode != http.StatusBadRequest || len(answer.Cookies()) != 0 {
			t.Errorf("language %q: %d, %v", wrong, answer.StatusCode, answer.Cookies())
		}
	}
	for back, want := range map[string]string{"/add?url=x": "/add?url=x", "/import?id=1": "/import?id=1", "/feed?url=x": "/", "//evil.example/add": "/", `/\evil.example`: "/"} {
		if got := choose("de", back).Header.Get("Location"); got != want {
			t.Errorf("from %s the choice leads to %s, want %s", back, got, want)
		}
	}
	if page := body(t, b.ask("GET", "/", "Accept-Language", "de", "Cookie", languageCookie+"=xx")); !strings.Contains(page, `<html lang="de">`) {
		t.Errorf("with an unknown cookie: %.300s", page)
	}
}
