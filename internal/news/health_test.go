package news

import (
	"strings"
	"testing"
	"time"
)

// Each change of a source's health is one event, also when the node is started again between.
func TestEachChangeOfHealthIsOneEvent(t *testing.T) {
	down := Health{Failing: "the web server answers 500", Do: "wait"}
	for name, c := range map[string]struct {
		steps []Health
		pause time.Duration // between the steps
		want  string
	}{
		"good":                             {[]Health{{}, {}, {}}, time.Hour, ""},
		"an outage of a night":             {[]Health{{}, down, {}, down, {}}, 12 * time.Hour, ""},
		"a day":                            {[]Health{{}, down, down, down, down}, 13 * time.Hour, "failing"},
		"a day, for another reason":        {[]Health{down, down, {Failing: "no such host"}, down}, 13 * time.Hour, "failing"},
		"a day before it was looked at":    {[]Health{{Failing: "no such host", Since: day.Add(-FailingTime)}}, time.Hour, "failing"},
		"there and back":                   {[]Health{down, down, {}, {}, down, down}, 24 * time.Hour, "failing recovered failing"},
		"gone":                             {[]Health{{}, {Failing: "gone", Gone: true}, {Failing: "gone", Gone: true}}, time.Minute, "gone"},
		"failing, then gone, then back":    {[]Health{down, down, {Failing: "gone", Gone: true}, down, {}}, 24 * time.Hour, "failing gone recovered"},
		"moved":                            {[]Health{{}, {Moved: "https://new.example/"}, {Moved: "https://new.example/"}, {}}, time.Minute, "moved"},
		"moved again":                      {[]Health{{Moved: "https://new.example/"}, {Moved: "https://newer.example/"}}, time.Minute, "moved moved"},
		"a first key":                      {[]Health{{}, {Key: "A"}}, time.Minute, ""},
		"a changed key":                    {[]Health{{Key: "A"}, {Key: "B"}, {Key: "B"}}, time.Minute, "key"},
		"a key that is forgotten and back": {[]Health{{Key: "A"}, {}, {Key: "A"}, {}, {Key: "B"}}, time.Minute, "key"},
		"another key that is not believed": {[]Health{{Key: "A"}, {Key: "A", Doubt: "B"}, {Key: "A", Doubt: "B"}, {Key: "B"}}, time.Minute, "key key"},
		"two things at once":               {[]Health{{Key: "A"}, {Key: "B", Moved: "https://new.example/"}}, time.Minute, "moved key"},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDesk(t)
			for _, h := range c.steps {
				for range 2 { // the second look at the same state finds nothing
					if _, err := d.RecordHealth(ferries, h); err != nil {
						t.Fatal(err)
					}
					d.reopen()
				}
				d.now = d.now.Add(c.pause)
			}
			events, missed, err := d.After(0, 100)
			var kinds []string
			for _, e := range events {
				kinds = append(kinds, e.Health.Kind)
				if e.URL != ferries.URL || e.Title != ferries.Title || e.Item() != nil || strings.Contains(string(e.JSON()), `"item"`) {
					t.Errorf("the event is %s", e.JSON())
				}
			}
			if got := strings.Join(kinds, " "); got != c.want || missed || err != nil {
				t.Errorf("events %q, missed %v, %v; want %q", got, missed, err, c.want)
			}
		})
	}
}

// A source of which there is nothing to know needs no write of the disk, because a node looks at all of its sources.
func TestGoodHealthIsNotStored(t *testing.T) {
	d := openDesk(t)
	before := d.disk.Stats()
	for _, h := range []Health{{}, {Do: "wait"}, {KeyText: "nothing was changed"}} {
		if _, err := d.RecordHealth(ferries, h); err != nil {
			t.Fatal(err)
		}
	}
	if after := d.disk.Stats(); after != before {
		t.Errorf("%+v, before %+v", after, before)
	}
	if _, err := d.RecordHealth(ferries, Health{Key: "A"}); err != nil {
		t.Fatal(err)
	}
	if after := d.disk.Stats(); after == before {
		t.Errorf("a key is not stored: %+v", after)
	}
}

// A source that is followed again begins anew.
func TestForgottenHealth(t *testing.T) {
	d := openDesk(t)
	for _, key := range []string{"A", "B"} {
		if _, err := d.RecordHealth(ferries, Health{Key: key}); err != nil {
			t.Fatal(err)
		}
		if err := d.Forget(ferries); err != nil {
			t.Fatal(err)
		}
	}
	if d.Last() != 0 {
		t.Error("a key that was forgotten counts as changed")
	}
}
