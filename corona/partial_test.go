package corona

import (
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// servePart makes the origin serve a document, and only a part of it to requests for what has changed. It returns what the
// members ask from then on.
func (v *channelNetwork) servePart(doc, part string) (asked *[]env.Request) {
	asked = new([]env.Request)
	whole, changed := serves(doc), serves(doc, func(a *env.Answer) {
		if a.Status == 200 {
			a.Status, a.Body = 226, []byte(part)
		}
	})
	v.origin = func(_ *member, r env.Request) env.Answer {
		*asked = append(*asked, r)
		if r.Partial && r.ETag != "" {
			return changed(r)
		}
		return whole(r)
	}
	return asked
}

// edited returns a document with another text of an item.
func edited(doc, item string) string {
	return strings.Replace(doc, "of "+item+"<", "edit of "+item+"<", 1)
}

// A part of a document adds and changes items. Only its poller knows then that the log has the whole. The head, and the
// hints stay, nobody else polls by the validators of the part, and no poll fails.
func TestAPartAddsAndChangesItems(t *testing.T) {
	before := rss("A", "<ttl>90</ttl>", "one", "two", "three")
	v := newChannelNetwork(t, 3, before)
	for _, step := range []struct {
		what       string
		doc, part  string
		items      string // that the log gains
		news, same bool   // it is reported; the head of the part is that of the feed
	}{
		{"a new item", rss("A", "<ttl>90</ttl>", "four", "one", "two", "three"), rss("", "", "four"), "four", true, false},
		{"an edit", edited(rss("A", "<ttl>90</ttl>", "four", "one", "two", "three"), "two"), edited(rss("", "", "two"), "two"), "two", true, false},
		{"both", edited(edited(rss("A", "<ttl>90</ttl>", "five", "four", "one", "two", "three"), "two"), "one"), edited(rss("", "", "five", "one"), "one"), "five one", true, false},
		{"nothing that readers see", rss("A", "<ttl>90</ttl><!-- -->", "five", "four", "one", "two", "three"), rss("", ""), "", false, false},
	} {
		length, found, reports, saw := len(v.items), len(v.found), v.reports(), v.pollers[1].saw
		valid := v.leader.leaders[v.key].valid
		asked := v.servePart(step.doc, step.part)
		v.poll(v.pollers[1])
		l := v.leader.leaders[v.key]
		if r := (*asked)[0]; !r.Partial || r.ETag == "" {
			t.Errorf("%s: asked by %+v", step.what, r)
		}
		if got := titles(v.items[length:]); got != step.items || v.reports()-reports > 0 != step.news {
			t.Errorf("%s: the log gains %q by %d reports", step.what, got, v.reports()-reports)
		}
		for _, d := range v.found[found:] {
			if d.Head != nil || len(d.Withdrawn) > 0 {
				t.Errorf("%s: the head %q, %d withdrawn", step.what, d.Head.Title, len(d.Withdrawn))
			}
		}
		if l.valid != valid && l.valid != (validators{}) {
			t.Errorf("%s: others poll by %+v", step.what, l.valid)
		}
		if l.hints.TTL != 90*time.Minute || v.leader.Stats().Failed > 0 || v.state().Kind != coronapb.State_OK || v.pollers[1].saw != saw {
			t.Errorf("%s: hints %+v, state %+v, %d seen", step.what, l.hints, v.state(), v.pollers[1].saw-saw)
		}
		if n := len(v.knowing(step.doc)); step.news && n != 1 {
			t.Errorf("%s: %d pollers know the document", step.what, n)
		}
	}
}

// A log that needs an item again gets it with the next poll, which fetches the whole document.
func TestAnItemThatAPartLeavesOutIsFetched(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one", "two"))
	v.fading = []feed.ID{v.items[0].ID}
	whole := rss("A", "", "three", "one", "two")
	asked := v.servePart(whole, rss("", "", "three"))
	v.poll(v.pollers[1])
	if got := titles(v.items[2:]); got != "" || len(v.pollers[1].reports.pending) > 0 {
		t.Errorf("the log has %q more, and %d reports wait", got, len(v.pollers[1].reports.pending))
	}
	v.poll(v.pollers[1])
	if r := (*asked)[len(*asked)-1]; r.ETag != "" || r.Partial {
		t.Errorf("the next poll is %+v", r)
	}
	if got := titles(v.items[2:]); got != "three" || len(v.knowing(whole)) != 3 {
		t.Errorf("the log gains %q, and %d pollers know it", got, len(v.knowing(whole)))
	}
}

// A poller that has become the sequencer while it waited for a part goes on with whole documents, and finds what was
// withdrawn although the other pollers get parts. A poller whose last poll failed fetches the whole document.
func TestWholeDocumentsWhereAPartIsNotEnough(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one", "two", "three"))
	asked := v.servePart(rss("A", "", "four", "one", "three"), rss("", "", "four"))
	h := v.pollers[0]
	h.Corona.poller.poll(h.assignments.Get(v.key), h.Now())
	v.aside = false
	v.hand(h)
	if v.run(5 * time.Hour); !(*asked)[0].Partial {
		t.Fatalf("it has asked by %+v", (*asked)[0])
	}
	withdrawn := 0
	for _, d := range v.found {
		withdrawn += len(d.Withdrawn)
	}
	if got := titles(v.items[3:]); got != "four" || withdrawn != 1 || v.leader.Stats().Failed > 0 {
		t.Errorf("the log gains %q, and %d items are withdrawn", got, withdrawn)
	}

	v = newChannelNetwork(t, 3, rss("A", "", "one"))
	asked = v.servePart(rss("A", "", "two", "one"), "no feed")
	v.poll(v.pollers[1])
	v.poll(v.pollers[1])
	if len(*asked) != 2 || !(*asked)[0].Partial || (*asked)[1].Partial || titles(v.items[1:]) != "two" {
		t.Errorf("asked by %+v; the log gains %q", *asked, titles(v.items[1:]))
	}
}

// A node that vouches for what it has seen never asks for a part.
func TestOwnersAskForWholeDocuments(t *testing.T) {
	for witnesses, partial := range map[bool]bool{false: true, true: false} {
		l := newLab(t)
		l.origins[site] = serves(rss("A", "", "one"))
		p := l.poller(Config{Witnesses: witnesses})
		p.owner = true
		p.lead(site, nil)
		l.run(2*time.Hour, p)
		d := p.assignments.Get(key(site))
		if r := l.last(); r.Partial {
			t.Errorf("the sequencer asks by %+v", r)
		}
		d.led = false
		p.poller.poll(d, l.now)
		if r := l.last(); r.ETag == "" || r.Partial != partial {
			t.Errorf("witnesses %v: asked by %+v", witnesses, r)
		}
	}
}
