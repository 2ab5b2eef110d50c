package difference

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/internal/feed"
)

// A judge decides as a sequencer does. It keeps the deltas that it reported, from which the next one continues.
type judge struct {
	t     *testing.T
	known *Known
	log   []Delta
	now   time.Time
}

func newJudge(t *testing.T) *judge {
	return &judge{t: t, known: new(Known), now: time.Unix(1_800_000_000, 0)}
}

// check compares a document of items, each of id and description, with what is known. It returns the descriptions
// that are news.
func (j *judge) check(after time.Duration, items ...string) string {
	j.t.Helper()
	var news []string
	for _, c := range j.see(after, "<title>T</title>", items...).Changes {
		m, err := c.Item.Meaning("")
		if err != nil {
			j.t.Fatal(err)
		}
		news = append(news, m.Summary)
	}
	return strings.Join(news, "; ")
}

// see returns what is told of a document with this head, as followers decode it.
func (j *judge) see(after time.Duration, head string, items ...string) Delta {
	j.t.Helper()
	j.now = j.now.Add(after)
	var b strings.Builder
	for _, it := range items {
		id, text, _ := strings.Cut(it, "=")
		fmt.Fprintf(&b, "<item><guid>%s</guid><title>About %s</title><description>%s</description></item>", id, id, text)
	}
	f, err := feed.Parse([]byte("<rss><channel>"+head+b.String()+"</channel></rss>"), "")
	if err != nil {
		j.t.Fatal(err)
	}
	j.known.Recognise(f)
	j.known.Sight(f, 3*time.Hour, j.now)
	d := j.known.DiffWithTakenBack(f, time.Hour, j.now)
	j.known.Add(d)
	body, err := d.Encode()
	if err != nil {
		j.t.Fatal(err)
	}
	if d, err = Decode(body); err != nil {
		j.t.Fatal(err)
	}
	if !d.Empty() {
		j.log = append(j.log, d)
	}
	return d
}

func (j *judge) want(news string, after time.Duration, items ...string) {
	j.t.Helper()
	if got := j.check(after, items...); got != news {
		j.t.Errorf("%q is reported, not %q", got, news)
	}
}

// takeOver continues with another sequencer, which knows only the log.
func (j *judge) takeOver() {
	j.known = new(Known)
	for _, d := range j.log {
		j.known.AddLogged(d)
	}
}

func TestAnEditIsTakenBackWhenItStays(t *testing.T) {
	j := newJudge(t)
	j.want("old", 0, "a=old")
	j.want("new", time.Hour, "a=new")
	j.want("", time.Minute, "a=old")
	j.want("", 30*time.Minute, "a=new") // it was a replica that lags
	j.want("", 30*time.Minute, "a=old")
	j.want("", 59*time.Minute, "a=old")
	j.want("old", time.Minute, "a=old")
	j.want("", 3*time.Hour, "a=old")
	j.want("", time.Hour, "a=new") // the edit is made again
	j.want("", time.Hour, "a=new")
	j.want("new", time.Hour, "a=new")
}

// Servers that differ for good are reported less and less often.
func TestServersThatDifferForGood(t *testing.T) {
	j := newJudge(t)
	j.check(0, "a=old")
	j.check(time.Hour, "a=new")
	told := 0
	for day := range 10 {
		for range 12 {
			if j.check(2*time.Hour, "a="+[]string{"old", "new"}[day%2]) != "" {
				told++
			}
		}
		if day == 4 {
			j.takeOver()
		}
	}
	if told != 5 { // after 1, 2, 4, 8 and 16 hours; after that, a day is too short
		t.Errorf("reported %d times", told)
	}
}

// A sequencer that takes over knows from the log which version readers have, and counts the hour anew.
func TestAnEditIsTakenBackByTheNextSequencer(t *testing.T) {
	j := newJudge(t)
	j.check(0, "a=old")
	j.check(time.Hour, "a=new")
	j.want("", time.Hour, "a=old")
	j.takeOver()
	j.want("", 30*time.Minute, "a=old")
	j.want("old", time.Hour, "a=old")
	j.takeOver()
	j.want("", 2*time.Hour, "a=old")
	j.want("", 2*time.Hour, "a=old")
	j.want("", time.Minute, "a=new")
	j.want("new", 2*time.Hour, "a=new")
}

// "Not modified" after the latest version shows that an earlier one was a replica's.
func TestNotModifiedShowsTheLatestVersion(t *testing.T) {
	j := newJudge(t)
	j.check(0, "a=old")
	j.check(time.Hour, "a=new")
	j.want("", time.Hour, "a=old")
	j.known.SightLatest()
	j.want("", time.Hour, "a=old")
	j.want("old", time.Hour, "a=old")
}

func TestCountersAreReportedOnce(t *testing.T) {
	j := newJudge(t)
	j.check(0, "a=Nine songs. 99 comments", "b=We talked. Read 7 times, 2 minutes ago")
	j.check(time.Hour, "a=Nine songs. 100 comments", "b=We talked. Read 12 times, 1 hour ago") // not learned yet
	for n := range 5 {
		j.want("", time.Hour, fmt.Sprintf("a=Nine songs. %d comments", 1001+n), fmt.Sprintf("b=We talked. Read %d times, %d hours ago", 30+n, 2+n))
		if n == 2 {
			j.takeOver()
		}
	}
	j.want("Ten songs. 1010 comments", time.Hour, "a=Ten songs. 1010 comments", "b=We talked. Read 50 times, 9 hours ago")
	j.want("", 2*time.Hour, "a=Ten songs. 1011 comments", "b=We talked. Read 51 times, 9 hours ago")
	j.want("New. 1 comments", time.Hour, "c=New. 1 comments", "a=Ten songs. 1012 comments", "b=We talked. Read 52 times, 9 hours ago")
	j.want("", time.Hour, "c=New. 8 comments", "a=Ten songs. 1013 comments", "b=We talked. Read 53 times, 9 hours ago")
}

// A number that is corrected is news, also when the correction is taken back.
func TestACorrectedNumberIsNews(t *testing.T) {
	j := newJudge(t)
	j.check(0, "a=12 ships are missing", "b=A pump costs 119", "c=x", "d=y")
	j.want("15 ships are missing", time.Hour, "a=15 ships are missing", "b=A pump costs 119", "c=x", "d=y")
	j.want("A pump costs 99", time.Hour, "a=15 ships are missing", "b=A pump costs 99", "c=x", "d=y")
	j.want("", time.Hour, "a=12 ships are missing", "b=A pump costs 99", "c=x", "d=y")
	j.want("12 ships are missing", time.Hour, "a=12 ships are missing", "b=A pump costs 99", "c=x", "d=y")
}

// In a feed without other counters, an item whose numbers alone change again and again is a counter.
func TestASingleCounterIsLearned(t *testing.T) {
	j := newJudge(t)
	told := 0
	for n := range 9 {
		if j.check(2*time.Hour, fmt.Sprintf("a=%d votes", n), "b=x", "c=y", "d=z", "e=w") != "" {
			told++
		}
	}
	if told != maxNumbers {
		t.Errorf("reported %d times, not %d", told, maxNumbers)
	}
}
