package page

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// resultOf returns the change from one version of a page to another.
func resultOf(old, now Core) *Result {
	_, patch := replace(&old, &now, changes(old.Lines, now.Lines))
	return &Result{Kind: Changed, Number: 2, Patch: patch, Before: old, Core: now}
}

// shopText returns a text of a page of which most lines stay.
func shopText(of ...string) Core {
	return Core{Title: "Shop", Lines: append([]string{"Welcome to the shop", "Open on all days", "Parking is free"}, of...)}
}

// An owner signs a change if it has seen itself whatever readers are shown of it: the lines that are added, those that are
// removed, and the line before them. All else may differ.
func TestAPageShowsAChange(t *testing.T) {
	number := func(n, title string) Core { return Core{Title: title, Lines: []string{n}} }
	for _, c := range []struct {
		name     string
		old, now Core   // in the log
		seen     []Core // by the owner, the last text last
		shown    bool
	}{
		{"the same texts", shopText("Old news"), shopText("New news"), []Core{shopText("Old news"), shopText("New news")}, true},
		{"noise of its own", shopText("Old news"), shopText("New news"), []Core{shopText("Old news"), shopText("17 visitors", "New news", "It rains")}, true},
		{"the earlier text", shopText("Old news"), shopText("New news"), []Core{shopText("Old news")}, false},
		{"both", shopText("Old news"), shopText("New news"), []Core{shopText("Old news"), shopText("Old news", "New news")}, false},
		{"neither", shopText("Old news"), shopText("New news"), []Core{shopText("Old news"), shopText()}, false},
		{"something added", shopText("News"), shopText("News", "More"), []Core{shopText("News", "More")}, true},
		{"nothing added", shopText("News"), shopText("News", "More"), []Core{shopText("News")}, false},
		{"the first word of another line", shopText("News"), shopText("News", "More"), []Core{shopText("News", "Moreover")}, false},
		{"a piece of a sentence", shopText(), shopText("the bank is bankrupt"), []Core{shopText("Nobody believes that the bank is bankrupt today")}, false},
		{"a sentence in pieces", shopText("Nobody believes that", "today"), shopText("Nobody believes that", "the bank is bankrupt", "today"), []Core{shopText("Nobody believes that the bank is bankrupt today")}, false},
		{"the beginning of a sentence", shopText("News"), shopText("Mr Smith was acquitted", "News"), []Core{shopText("Mr Smith was acquitted of one thing", "News")}, false},
		{"something removed", shopText("News", "More"), shopText("News"), []Core{shopText("News", "More"), shopText("News")}, true},
		{"removed long ago", shopText("News", "More"), shopText("News"), []Core{shopText("More"), shopText("Gone"), shopText("News")}, true},
		{"nothing removed", shopText("News", "More"), shopText("News"), []Core{shopText("News", "More")}, false},
		{"gone, and back", shopText("News", "More"), shopText("News"), []Core{shopText("News", "More"), shopText("News"), shopText("News", "More")}, false},
		{"one of two removed", shopText("More", "News", "More"), shopText("News", "More"), []Core{shopText("More", "News", "More"), shopText("News", "More")}, true},
		{"a second one that never was", shopText("More", "News", "More"), shopText("News", "More"), []Core{shopText("News", "More")}, false},
		{"moved", shopText("News", "More"), shopText("More", "News"), []Core{shopText("More", "News")}, true},
		{"removed what never was", shopText("News", "The bank is bankrupt"), shopText("News"), []Core{shopText("News")}, false},
		{"replaced what never was", shopText("The bank is bankrupt"), shopText("News"), []Core{shopText(), shopText("News")}, false},
		{"removed what stands in another line", shopText("Mr Smith was acquitted", "on all counts of fraud", "News"), shopText("News"),
			[]Core{shopText("Mr Smith was acquitted", "on all counts of fraud", "News"), shopText("Mr Smith was acquitted on all counts of fraud", "News")}, false},
		{"extended", shopText("Mr Smith was acquitted"), shopText("Mr Smith was acquitted of one thing"), []Core{shopText("Mr Smith was acquitted"), shopText("Mr Smith was acquitted of one thing")}, true},
		{"below a line that never was", shopText("Candidate B has won the election"), shopText("Candidate B has won the election", "52.3 %"), []Core{shopText("52.3 %")}, false},
		{"below a number that never was", shopText("Votes for B: 99"), shopText("Votes for B: 99", "Few have voted"), []Core{shopText("Votes for B: 12", "Few have voted")}, false},
		{"below a clock", shopText("It is 10:15"), shopText("It is 10:15", "News"), []Core{shopText("It is 10:14"), shopText("It is 10:17", "News")}, true},
		{"below a link", shopText("[A](http://a.example/)"), shopText("[A](http://a.example/)", "News"), []Core{shopText("[A](https://a.example/)", "News")}, true},
		{"an error in the page's place", shopText("News", "More"), shopText("News"), []Core{shopText("News", "More"), {Lines: []string{"Bad gateway"}}}, false},
		{"a number", number("12", "Shop"), number("13", "Shop"), []Core{number("12", "Shop"), number("13", "Shop")}, true},
		{"a number that never was", number("99", "Shop"), number("13", "Shop"), []Core{number("12", "Shop"), number("13", "Shop")}, false},
		{"a number under another title", number("12", "Shop"), number("13", "Shop"), []Core{number("12", "A shop"), number("13", "A shop")}, false},
		{"no change", shopText(), shopText(), []Core{shopText()}, false},
	} {
		var seen *Seen
		for i := range c.seen {
			seen = seen.Next(&c.seen[i])
		}
		if got := resultOf(c.old, c.now).ShownBy(seen); got != c.shown {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if (&Result{}).ShownBy(new(Seen).Next(new(Core))) {
		t.Error("no change is shown")
	}
}

// Owners see the edits of pages of many kinds, although noise shows each of them another text. Only where something that differs
// at each visit is a part of each edit, such as an advertisement beside it, they do not.
func TestEditsOfPagesOfManyKindsAreShown(t *testing.T) {
	const looks, every = 60, 5
	for name, h := range histories {
		var m Tracker // of the sequencer
		var seen *Seen
		edits, shown := 0, 0
		for look := range looks {
			edited := look > 24 && look%every == 0
			if edited {
				edits++
			}
			read := func(visitor uint64) Core {
				c, err := Read([]byte(h.page(look, edits, rand.New(rand.NewPCG(uint64(look), visitor)))), h.contentType, Location{})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			own := read(1)
			seen = seen.Next(&own)
			if f := m.Check(read(2), time.Unix(0, 0).Add(time.Duration(look)*h.every)); edited && f.ShownBy(seen) {
				shown++
			}
		}
		if part := name == "shop" || name == "news" || name == "services"; shown < edits && !part {
			t.Errorf("%s: %d of %d edits are shown", name, shown, edits)
		}
	}
}

// The lines of earlier texts are bounded, and the latest are kept.
func TestGoneLinesAreBounded(t *testing.T) {
	var seen *Seen
	text := func(i int) Core {
		return shopText(fmt.Sprint("It is ", i), strings.Repeat("x", 1000), fmt.Sprint(strings.Repeat("y", 1000), i))
	}
	for i := range 2 * maxGone / 1000 {
		c := text(i)
		seen = seen.Next(&c)
	}
	if size := length(seen.gone); size > maxGone || size < maxGone*9/10 || seen.gone[len(seen.gone)-2] != fmt.Sprint("It is ", 2*maxGone/1000-2) {
		t.Errorf("%d bytes, the last is %.20q", size, seen.gone[len(seen.gone)-1])
	}
	if slices.Contains(seen.gone, strings.Repeat("x", 1000)) {
		t.Error("a line that has stayed is gone")
	}
}

// A change is not slow to judge, however many lines it removes and however long the text is.
func TestAHostileChangeIsCheapToJudge(t *testing.T) {
	old, now := shopText(), shopText()
	for i := range maxGone / 4 {
		old.Lines = append(old.Lines, fmt.Sprintf("%x", i))
	}
	f := resultOf(old, now)
	var seen *Seen
	seen = seen.Next(&old)
	now.Lines = append(slices.Clone(now.Lines), strings.Repeat("9 ", MaxText/4))
	seen = seen.Next(&now)
	longtest.Bounded(t, func() {
		if f.ShownBy(seen) {
			t.Error("it is shown")
		}
	})
}
