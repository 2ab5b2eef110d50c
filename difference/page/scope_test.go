package page

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/selection"
)

// mustRule returns the rule of a fragment.
func mustRule(t testing.TB, fragment string) selection.Rule {
	t.Helper()
	rule, err := selection.Parse(fragment)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

const shop = `<!doctype html><title>Shop</title><body><nav><a href=/a>A</a> <a href=/b>B</a></nav>
	<main><h1>Kettle</h1><p>Boils <b>fast</b>.<div class=ad>Buy a toaster!</div>
	<table><tr><td>Colour<td>red<tr class=x><td>Price<td class=price>was 60,00 € now <span class=now>1.049,90 €</span></table>
	<p class=price hidden>99</p><ul class=menu><li><a href=/1>One</a><li><a href=/2>Two</a><li><a href=/3>Three</a></ul>
	<button class=stock>In stock</button></main>
	<footer>© 2024 Shop <span data-cfemail="543531142d7a37393b">x</span></footer>`

func TestWhatCounts(t *testing.T) {
	for _, c := range []struct{ rule, want string }{ // a want that begins with ! is a part of the error
		{"select=h1", "Kettle"},
		{"select=.now", "1.049,90 €"},
		{"select=b, .now", "fast|1.049,90 €"},
		{"select=nav", "[A](/a) [B](/b)"},
		{"select=ul", "[One](/1)|[Two](/2)|[Three](/3)"},
		{"select=footer&omit=span", "© 2024 Shop"},
		{"select=.stock", "In stock"},
		{"select=p.price", "99"},
		{"select=main&omit=table,ul,.ad,button", "Kettle|Boils fast."},
		{"select=table > tbody > tr:nth-child(2) > td:first-child", "Price"},
		{"select=body > main td:contains('red')", "red"},
		{"select=ul, li:first-child", "[One](/1)|[Two](/2)|[Three](/3)"},
		{"select=h2", "!select in #select=h2 finds no element"},
		{"select=.ad&omit=main", "!select in #omit=main&select=.ad finds no element"},
		{"select=title", "!elements without text"},
		{"number=.now", "1049.9"},
		{"number=.price", "60"},
		{"number=.price&omit=td", "99"},
		{"number=h1", "!an element without a number"},
		{"number=h2<5", "!number in #number=h2%3C5 finds no element"},
	} {
		core, err := Read([]byte(shop), "text/html", Location{What: mustRule(t, c.rule)})
		if part, fails := strings.CutPrefix(c.want, "!"); fails {
			if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q, %v; want an error with %q", c.rule, core.Lines, err, part)
			}
		} else if got := strings.Join(core.Lines, "|"); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.rule, got, err, c.want)
		}
	}
	core, err := Read([]byte(shop), "text/html", Location{What: mustRule(t, "omit=.ad, table")})
	if err != nil || strings.Contains(core.Text(), "toaster") || strings.Contains(core.Text(), "red") || !strings.Contains(core.Text(), "Boils") {
		t.Errorf("without the advertisement and the table: %q, %v", core.Lines, err)
	}
	if _, err := Read([]byte(`{"a": 1}`), "application/json", Location{What: mustRule(t, "select=a")}); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "selectors are for HTML") {
		t.Errorf("a selector on JSON: %v", err)
	}
}

func TestFirstNumber(t *testing.T) {
	for text, want := range map[string]string{
		"none": "", "€ 49": "49", "49,90 €": "49.9", "$1,299.00": "1299", "1.299,00 €": "1299", "1 299,50 kr": "1299.5",
		"1\u202f299\u00a0000 zł": "1299000", "CHF 1'299.–": "1299", "CHF 1’299.50": "1299.5", "₹1,23,456": "123456",
		"1,299": "1299", "1.299": "1299", "0.125": "0.125", "0,125": "0.125", "1234.567": "1234.567", "1.0845": "1.0845",
		"1.234.567": "1234567", "-5": "-5", "−$5.50": "-5.5", "-€ 5": "-5", "A-5": "5", "2 - 3": "2", "Price - 50": "50",
		"12 345 of 20": "12345", "12 34": "12", "Save 20 % now": "20", "12345678901234567890 then 7": "7", "v1.2.3": "123", "5.": "5", "007": "7", "-0": "0", "−0,00 °C": "0",
	} {
		got := ""
		if n, ok := firstNumber(text); ok {
			got = formatNumber(n)
		}
		if got != want {
			t.Errorf("%q has the number %q, want %q", text, got, want)
		}
	}
}

// checks returns what a tracker tells of the texts of an element that a rule selects, one an hour and a bit.
func checks(t *testing.T, rule selection.Rule, bodies ...string) (told []string) {
	t.Helper()
	var m Tracker
	for i, body := range bodies {
		core, err := Read([]byte("<title>T</title><body>"+body), "text/html", Location{What: rule})
		if err != nil {
			t.Fatal(err)
		}
		r := m.Check(core, time.Unix(0, 0).Add(time.Duration(i)*(flapWindow+time.Minute)))
		if r.Kind == Changed && r.Number > 1 && r.Told(&rule) {
			told = append(told, r.headline())
		}
	}
	return told
}

func TestOnlyAdditionsAreTold(t *testing.T) {
	bodies := []string{"<p>alpha beta<p>gamma delta", "<p>alpha beta", "<p>alpha beta<p>epsilon zeta", "<p>alpha eta<p>epsilon zeta"}
	if got := fmt.Sprint(checks(t, mustRule(t, ""), bodies...)); got != "[Removed: gamma delta epsilon zeta alpha eta]" {
		t.Errorf("all changes: %s", got)
	}
	if got := fmt.Sprint(checks(t, mustRule(t, "only=added"), bodies...)); got != "[epsilon zeta alpha eta]" {
		t.Errorf("only=added: %s", got)
	}
}

func TestNumbersAreTold(t *testing.T) {
	var bodies []string
	for _, n := range []string{"60", "55", "49.90", "49,90", "45", "50", "51", "48", "47", "46", "12345.67", "9"} {
		bodies = append(bodies, "<b>Price</b> <i>"+n+" €</i>")
	}
	want := "T: 60 → 55|T: 55 → 49.9|T: 49.9 → 45|T: 45 → 50|T: 50 → 51|T: 51 → 48|T: 48 → 47|T: 47 → 46|T: 46 → 12345.67|T: 12345.67 → 9"
	if got := strings.Join(checks(t, mustRule(t, "number=i"), bodies...), "|"); got != want {
		t.Errorf("each number: %s, want %s", got, want)
	}
	if got := strings.Join(checks(t, mustRule(t, "number=i<50"), bodies...), "|"); got != "T: 55 → 49.9|T: 51 → 48|T: 12345.67 → 9" {
		t.Errorf("below 50: %s", got)
	}
}

// Hostile pages take neither long nor much memory, whatever is selected. Some are refused.
func TestSelectingIsBounded(t *testing.T) {
	size := longtest.Pick(2<<20, 10<<20)
	again := strings.Repeat
	fill := func(piece string) string { return again(piece, size/len(piece)) }
	fragments := []string{
		"select=b" + again(" ~ i", 9), "select=q" + again(" *", 9), "select=*:contains(q)", "omit=*", "number=i", "number=body&omit=q", "select=q:empty" + again(":empty", 31),
		"select=:nth-child(2n%2B1):not(q)", "select=i:nth-last-of-type(2n%2B3)", "select=i:nth-last-child(2n%2B2)", "select=i:first-of-type", "select=" + again(":first-child", 10) + again(":last-child", 8), "select=i" + again(":not(:only-child)", 13), "select=i:only-of-type",
		"select=:has(" + again("q,", 30) + "q)", "select=:has([class*=q])", "select=" + again(".b", 32), "select=:not(" + again(".b,", 15) + "i)",
		"select=:not([a*=q])" + again(":not([class*=q])", 13), "select=" + again("[class~='b' i]", 16), "select=:has([aa=q])", "select=" + again("k", 160) + ":not([\\kk])",
	}
	for n, c := range []struct {
		name, doc string
		refused   bool
	}{
		{"siblings", again("<i>x</i>", maxSiblings-9), false},
		{"some siblings", again("<div>"+again("<i>x</i>", maxSiblings/4)+"</div>", 15), false},
		{"siblings of two kinds", again("<b>x</b>", maxSiblings/2-9) + again("<i>x</i>", maxSiblings/2), false},
		{"nested", again(again("<div>", maxNested-6)+again("</div>", maxNested-6), maxElements/maxNested), false},
		{"deep text", again("<div>", maxNested-6) + again("Ä", 60<<10), false},
		{"one text", fill("x") + "<i>", false},
		{"attributes", "<p" + fill(" a") + ">", false},
		{"values", again("<i"+again(" aa=bb", maxAttributes)+"></i>", maxSiblings-9), false},
		{"a value", "<i class='" + fill("a ") + "'>", false},
		{"classes", again("<i class='"+again("a ", 500)+"b'></i>", maxCompared/1001), false},
		{"names", again("<div>"+again("<i "+again("k", 160)+"=b class='"+again("a ", 15)+"'></i>", 999)+"</div>", 32), false},
		{"formatting", again("<div>", 9) + again("<b a>", 400) + again("</div><div>x", 8000), false},
		{"tables", again(again("<table><tr><td>", 60)+again("</table>", 60), 130), false},
		{"comments", "<p>" + fill("a<!---->"), false},
		{"numbers", "<i>" + fill("1.1.1.1.1,1 ") + "</i>", false},
		{"long numbers", "<i>" + fill("1234567890123456 ") + "</i>", false},
		{"elements", fill("<i>"), true},
		{"texts", again("<i>"+again("x", size/maxElements), maxElements-9), true},
		{"depth", again("<div>", maxElements/2) + fill("y"), true},
		{"beside", again("<i>x</i>", maxSiblings+1), true},
		{"too many classes", again("<i class='"+again("a ", 500)+"b'></i>", maxCompared/1001+1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, fragment := range fragments {
				if !longtest.Long() && (i+n)%5 != 0 {
					continue
				}
				rule := mustRule(t, fragment)
				var err error
				longtest.Bounded(t, func() { _, err = Read([]byte(c.doc), "text/html", Location{What: rule}) })
				if errors.Is(err, ErrLarge) != c.refused {
					t.Errorf("%s: %v", fragment, err)
				}
			}
		})
	}
}

func FuzzWhatCounts(f *testing.F) {
	for _, fragment := range []string{"select=td:nth-child(2)", "omit=.ad&select=main", "number=.now<50", "select=b, .now"} {
		f.Add([]byte(shop), fragment, false)
	}
	f.Fuzz(func(t *testing.T, doc []byte, fragment string, xhtml bool) {
		rule, err := selection.Parse(fragment)
		if err != nil {
			return
		}
		media := "text/html"
		if xhtml {
			media = "application/xhtml+xml"
		}
		core, err := Read(doc, media, Location{What: rule})
		if err != nil {
			return
		}
		if rule.Number != nil && len(core.Lines) != 1 || rule.Select != nil && len(core.Lines) == 0 {
			t.Errorf("%q by %s has %q", doc, rule.String(), core.Lines)
		}
		for _, l := range core.Lines {
			if !lineOfCore(l) {
				t.Errorf("%q by %s has the line %q", doc, rule.String(), l)
			}
		}
	})
}
