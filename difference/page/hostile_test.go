package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/difference/page/pagepb"
	"tidings/internal/longtest"
)

// Versions make the text of a page in versions, a paragraph of each line.
type versions func(version int) string

// fill returns lines up to the size of the text of a page.
func fill(line func(i int) string) string {
	return fillTo(longtest.Pick(MaxText/8, MaxText*9/10), line)
}

func fillTo(size int, line func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		b.WriteString(line(i) + "\n")
	}
	return b.String()
}

// each returns versions in which each nth line is made by changed. The others stay, and have a word of their own and
// length bytes.
func each(nth, length int, changed func(i, version int) string) versions {
	return func(version int) string {
		return fill(func(i int) string {
			if i%nth == nth-1 {
				return changed(i, version)
			}
			return word(i) + strings.Repeat("x", length)
		})
	}
}

// blocks returns versions of blocks of lines that are made by changed, each behind a line that stays.
func blocks(size int, changed func(i, version int) string) versions {
	return each(2, 0, func(block, version int) string {
		var b strings.Builder
		for i := range size {
			b.WriteString(changed(block*size+i, version) + "\n")
		}
		return b.String()
	})
}

// word returns a word for a number.
func word(n int) string {
	var b strings.Builder
	for n += 1 << 16; n > 0; n /= 16 {
		b.WriteByte(byte('a' + n%16))
	}
	return b.String()
}

// choose returns one of some texts.
func choose(n int, of ...string) string { return of[n%len(of)] }

// hostileHistories are made to cost a tracker as much as possible.
var hostileHistories = map[string]versions{
	"counters":                     each(2, 0, func(i, v int) string { return fmt.Sprint(word(i), v) }),
	"few counters":                 each(70, 4, func(i, v int) string { return fmt.Sprint(word(i), " ", v) }),
	"counters and rotating lines":  blocks(32, func(i, v int) string { return choose(i, fmt.Sprint(word(i), " ", v), word(v*100+i)+"xxxxx") }),
	"equal counters":               blocks(32, func(i, v int) string { return choose(i, fmt.Sprint("a ", v), word(v*100+i)) }),
	"rotating lines":               each(70, 14, func(i, v int) string { return word(i*7 + v) }),
	"rotating lines, close":        each(4, 4, func(i, v int) string { return word(i*7 + v) }),
	"rotating blocks":              blocks(31, func(i, v int) string { return word(i) + " of the version " + word(v) }),
	"rotating lines without words": each(20, 0, func(i, v int) string { return fmt.Sprint(i*v, strings.Repeat(" 1", 150)) }),
	"long lines without words":     each(2, 20000, func(i, v int) string { return strings.Repeat(fmt.Sprint(i+v, " "), 3000) }),
	"blocks without words":         blocks(32, func(i, v int) string { return fmt.Sprintf("%d.%d", i, i%2*v) }),
	"lines that come and go":       each(70, 14, func(i, v int) string { return choose(v, "", word(i*7)) }),
	"lines that come or go":        each(70, 14, func(i, v int) string { return choose(v+i/70, "", word(i*7)) }),
	"blocks that come and go":      each(9, 90, func(i, v int) string { return choose(v, "", strings.Repeat(word(i*7)+"\n", 16)) }),
	"prices":                       each(70, 14, func(i, v int) string { return fmt.Sprintf("ABC %d XYZ %d € %d", i, i+v, v) }),
	"prices alone":                 each(1, 0, func(_, v int) string { return strings.Repeat(fmt.Sprintf("ABC %d ", v), 12) }),
	"stocks": each(2, 90, func(i, v int) string {
		return word(i) + strings.Repeat(" left 12 piece", 5) + choose(v, " in stock", " sold out")
	}),
	"lines broken elsewhere": func(v int) string {
		return fill(func(i int) string { return choose(min(i%41, 1), word(i), strings.Repeat("a ", 90-v%2)) })
	},
	"words broken elsewhere": each(1, 0, func(_, v int) string { return strings.Repeat("a a a a"+choose(v, " ", "\n")+"b ", 10) }),
	"links":                  each(2, 90, func(i, v int) string { return strings.Repeat("[[a](b) ", 10) + word(i+v) }),
	"error codes":            each(2, 90, func(i, v int) string { return strings.Repeat("404 ", 20) + word(i+v) }),
	"nothing in common":      each(1, 0, func(i, v int) string { return word(i + v<<20) }),
	"two lines by turns":     each(1, 0, func(i, v int) string { return word(i * i % 7 % (v%2 + 2)) }),
	"a list in another order": func(v int) string {
		return strings.Repeat("<ul><li>a", maxDepth) + fill(func(i int) string { return "<li>" + word((i*(1-v%2*2)+maxLines)%maxLines) })
	},
	"lists in lists": func(v int) string {
		return fill(func(i int) string {
			return strings.Repeat("<ul><li>a<li>b", maxDepth) + strings.Repeat("</ul>", maxDepth) + "<ul>" + strings.Repeat("<li>"+word(v), 1+v%3) + "</ul>"
		})
	},
	"an error in the place of a page about errors": func(v int) string {
		return choose(v, fill(func(int) string { return "ccapccapc" })+"captcha", "<title>"+strings.Repeat("captcha ", 120)+"</title>"+strings.Repeat("captcha ", wallLength/8-1))
	},
}

// No version of a page takes a tracker long, or much memory, whatever the versions before it were.
func TestHostileHistoriesAreCheap(t *testing.T) {
	size := longtest.Pick(MaxText/4, 10<<20)
	for what, version := range hostileHistories {
		t.Run(what, func(t *testing.T) {
			var m Tracker
			at := time.Unix(0, 0)
			for v := range longtest.Pick(3, 10) {
				text := strings.ReplaceAll(version(v), "\n", "<p>")
				doc := []byte(text + strings.Repeat("<!---->", max(0, size-len(text))/7))
				at = at.Add(flapWindow)
				longtest.Bounded(t, func() {
					core, err := Read(doc, "text/html", Location{})
					if err != nil || core.size() > MaxText {
						t.Fatalf("%v, %d bytes of text", err, core.size())
					}
					if r := m.Check(core, at); r.Kind == Changed {
						r.Entry("https://a.example/")
						if _, err := m.Update(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		})
	}
}

// An update whose patch is as large as it can be, and leads to more text than a page may have, is refused as cheaply.
func TestHostileUpdatesAreCheap(t *testing.T) {
	for what, c := range map[string]struct{ hunks, lines, length int }{
		"one change":   {1, maxLines, maxPatch/maxLines - 8},
		"many changes": {maxLines - 9, 1, maxPatch/maxLines - 24},
		"long lines":   {1, maxPatch/(2*maxLine) - 1, 2 * maxLine},
	} {
		t.Run(what, func(t *testing.T) {
			old := Core{Lines: strings.Split(strings.TrimSpace(fillTo(MaxText/2, word)), "\n")}
			p := Patch{Old: old.Hash()}
			for i := range c.hunks {
				p.Hunks = append(p.Hunks, Hunk{At: i, Add: slices.Repeat([]string{strings.Repeat("x", c.length)}, c.lines)})
			}
			packed, err := p.Encode(&old)
			if err != nil {
				t.Fatal(err)
			}
			update := updateOf(&old, 2)
			update.How = &pagepb.Update_Patch{Patch: packed}
			body, err := encode(update)
			if err != nil {
				t.Fatal(err)
			}
			m := Tracker{visible: old, last: old, number: 1}
			longtest.Bounded(t, func() { err = m.Apply(body) })
			if err == nil {
				t.Error("the tracker has taken it")
			}
		})
	}
}
