package locale

import (
	"errors"
	"html/template"
	"testing"
)

func TestTextsAreWrittenInTheLanguage(t *testing.T) {
	de := Match(Load(), "de", "")
	for _, c := range []struct {
		language *Language
		text     Text
		want     string
	}{
		{English, Say("%d items", 1), "1 item"},
		{English, Say("%d items", 0), "0 items"},
		{English, Say("%d items", 1234567), "1,234,567 items"},
		{de, Say("%d items", 1), "1 Eintrag"},
		{de, Say("%d items", int64(12345)), "12.345 Einträge"},
		{de, Say("nobody has translated %s", Say("%d items", 2)), "nobody has translated 2 Einträge"},
		{de, Say("100 % of nothing"), "100 % of nothing"},
		{de, Say("Network"), "Netz"},
		{de, Verbatim("Network"), "Network"},
		{de, Verbatim("100 %d"), "100 %d"},
		{de, nil, ""},
		{Pseudo, Say("%d items", 2), "⟦2 items⟧"},
		{Pseudo, nil, ""},
	} {
		if got := c.language.Text(c.text); got != c.want {
			t.Errorf("%v in %s is %q, want %q", []any(c.text), c.language.Name, got, c.want)
		}
	}
	if got := Say("%d items", 2).String(); got != "2 items" {
		t.Errorf("without a language: %q", got)
	}
}

// A title of a feed must not become a part of the page.
func TestArgumentsAreEscapedInHTML(t *testing.T) {
	type state string
	got := English.HTML("<b>%s</b>, %s, %s, %s, %v and %d", "<i>", template.HTML("<time>now</time>"), Say("%s", "&"), state("<s>"), errors.New("<u>"), 1000)
	if want := template.HTML("<b>&lt;i&gt;</b>, <time>now</time>, &amp;, &lt;s&gt;, &lt;u&gt; and 1,000"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheLanguageIsThatOfTheReader(t *testing.T) {
	for _, c := range []struct{ chosen, accepted, want string }{
		{"", "", "en"},
		{"", "de-AT,de;q=0.9,en;q=0.5", "de"},
		{"", "fr,de;q=0.8", "de"},
		{"", "fr", "en"},
		{"", "en-GB,de;q=0.8", "en"},
		{"de", "en", "de"},
		{"xx", "de", "de"},
		{"", "de;q=;;;,", "en"},
		{"", "*", "en"},
	} {
		if got := Match(Load(), c.chosen, c.accepted).Tag; got != c.want {
			t.Errorf("chosen %q, accepted %q: %s, want %s", c.chosen, c.accepted, got, c.want)
		}
	}
}
