package feed

import "testing"

// An id that is an address identifies the same item in each spelling of the address. Numbers in the fragment count
// only where they tell items apart.
func TestIdsThatDrift(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"scheme", `<guid>http://h.example/1</guid><title>A</title>`, `<guid>https://h.example/1</guid><title>A</title>`, true},
		{"www", `<guid>http://www.h.example/1</guid><title>A</title>`, `<guid>http://h.example/1</guid><title>A</title>`, true},
		{"port", `<guid>https://h.example:443/1</guid><title>A</title>`, `<guid>https://H.example/1</guid><title>A</title>`, true},
		{"slash", `<guid>https://h.example/1/</guid><title>A</title>`, `<guid>https://h.example/1</guid><title>A</title>`, true},
		{"tracking", `<guid>https://h.example/1?utm_source=rss</guid><title>A</title>`, `<guid>https://h.example/1</guid><title>A</title>`, true},
		{"link alone", `<link>http://www.h.example/1/</link><title>A</title>`, `<link>https://h.example/1</link><title>A</title>`, true},
		{"counter", `<guid>https://h.example/1#0</guid><link>https://h.example/1</link><title>A</title>`,
			`<guid>https://h.example/1#3</guid><link>https://h.example/1</link><title>A</title><description>longer</description>`, true},
		{"counter of other titles", `<guid>https://h.example/1#1</guid><link>https://h.example/1</link><title>A</title>`,
			`<guid>https://h.example/1#2</guid><link>https://h.example/1</link><title>B</title>`, false},
		{"number of a post", `<guid>https://h.example/1#7</guid><link>https://h.example/1#7</link><title>Re: A</title>`,
			`<guid>https://h.example/1#8</guid><link>https://h.example/1#8</link><title>Re: A</title>`, false},
		{"anchor", `<guid>https://h.example/log#v1</guid><title>A</title>`, `<guid>https://h.example/log#v2</guid><title>A</title>`, false},
		{"query", `<guid>https://h.example/?p=1</guid><title>A</title>`, `<guid>https://h.example/?p=2</guid><title>A</title>`, false},
		{"no address", `<guid>www.1</guid><title>A</title>`, `<guid>1</guid><title>A</title>`, false},
	} {
		a, b := only(t, "<item>"+c.a+"</item>"), only(t, "<item>"+c.b+"</item>")
		if (a.ID == b.ID) != c.same {
			t.Errorf("%s: one item %v, want %v", c.name, a.ID == b.ID, c.same)
		}
	}
}

// Another spelling of a link is no edit, and neither is another picture beside the text. Sound is content.
func TestWhatIsNoEdit(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"link", `<link>http://www.h.example/1/</link>`, `<link>https://h.example/1</link>`, true},
		{"link in the text", `<description>&lt;a href="http://www.h.example/2">x&lt;/a></description>`,
			`<description>&lt;a href="https://h.example/2/">x&lt;/a></description>`, true},
		{"picture by type", `<enclosure url="https://i.example/a/1" type="image/png"/>`, `<enclosure url="https://i.example/a/2" type="image/png"/>`, true},
		{"picture by name", `<enclosure url="https://i.example/1.JPG"/>`, `<enclosure url="https://i.example/2.JPG"/>`, true},
		{"sound", `<enclosure url="https://i.example/1.mp3" type="audio/mpeg"/>`, `<enclosure url="https://i.example/2.mp3" type="audio/mpeg"/>`, false},
		{"film with the name of a picture", `<enclosure url="https://i.example/1.png" type="video/mp4"/>`, `<enclosure url="https://i.example/2.png" type="video/mp4"/>`, false},
		{"document", `<enclosure url="https://i.example/1.pdf"/>`, `<enclosure url="https://i.example/2.pdf"/>`, false},
	} {
		a, b := only(t, "<item><guid>1</guid>"+c.a+"</item>"), only(t, "<item><guid>1</guid>"+c.b+"</item>")
		if (a.Hash == b.Hash) != c.same {
			t.Errorf("%s: equal %v, want %v", c.name, a.Hash == b.Hash, c.same)
		}
	}
	only(t, `<item><enclosure url="https://i.example/1.png"/></item>`) // a picture alone is an item
	for kind, same := range map[string]bool{"image/png": true, "audio/mpeg": false} {
		attachment := func(address string) Item {
			f := parse(t, `{"version":"https://jsonfeed.org/version/1.1","title":"T","items":[{"id":"1","attachments":[{"url":"`+address+`","mime_type":"`+kind+`"}]}]}`)
			return f.Items[0]
		}
		if a, b := attachment("https://i.example/a/1"), attachment("https://i.example/a/2"); (a.Hash == b.Hash) != same {
			t.Errorf("JSON, %s: equal %v, want %v", kind, a.Hash == b.Hash, same)
		}
	}
}

func TestWordingIgnoresNumbersInTheText(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"count", "<description>x 999 comments</description>", "<description>x 1,004 comments</description>", true},
		{"time ago", "<description>x posted 59 minutes ago</description>", "<description>x posted an hour ago</description>", true},
		{"words", "<description>9 songs</description>", "<description>9 poems</description>", false},
		{"number of a title", "<title>Pump for 119</title>", "<title>Pump for 99</title>", false},
		{"digit of an address", `<description>&lt;a href="/1">x&lt;/a></description>`, `<description>&lt;a href="/2">x&lt;/a></description>`, false},
	} {
		a, b := only(t, "<item><guid>1</guid>"+c.a+"</item>"), only(t, "<item><guid>1</guid>"+c.b+"</item>")
		if a.Hash == b.Hash || (a.Hash.Wording() == b.Hash.Wording()) != c.same {
			t.Errorf("%s: one wording %v, want %v", c.name, a.Hash.Wording() == b.Hash.Wording(), c.same)
		}
	}
}

// The description in elements of media or podcasts is content if the item has no other: an edit of it is news, and
// another number of views is not.
func TestEditsOfMediaDescriptionsAreNews(t *testing.T) {
	item := func(description, views string) Item {
		f, err := Parse([]byte(`<feed xmlns="http://www.w3.org/2005/Atom" xmlns:media="http://search.yahoo.com/mrss/"><title>Films</title><entry><id>f:1</id><title>Pier</title>`+
			`<media:group><media:title>Pier</media:title><media:content url="http://v.example/1"/><media:description>`+description+`</media:description>`+
			`<media:community><media:statistics views="`+views+`"/></media:community></media:group></entry></feed>`), "")
		if err != nil {
			t.Fatal(err)
		}
		return f.Items[0]
	}
	first := item("How a pier is built", "7")
	if again := item("How a pier is built", "9000"); again.Hash != first.Hash {
		t.Error("a number of views is news")
	}
	if edited := item("How a pier is built of concrete", "7"); edited.Hash == first.Hash || edited.ID != first.ID {
		t.Error("an edit of the description is not news")
	}
	if m, err := first.Meaning(""); err != nil || m.Summary+m.Content != "How a pier is built" {
		t.Errorf("it says %q, %q: %v", m.Summary, m.Content, err)
	}
}
