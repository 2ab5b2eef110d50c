package daemon

import (
	"strings"
	"testing"
)

func TestDamageIsToldInWords(t *testing.T) {
	for _, c := range []struct {
		damage damage
		want   []string // none: there is nothing to tell
	}{
		{damage{}, nil},
		{damage{lost: true, left: 3}, nil}, // it is new, or another file was put in its place: told elsewhere
		{damage{mended: true, left: 3}, []string{"damaged", "no subscription is lost", "again from the network"}},
		{damage{mended: true, lost: true, left: 3, back: 2, whole: true}, []string{"damaged", "no subscription is lost", "2 missing records", "tidings.db.second"}},
		{damage{lost: true, left: 2, back: 2, whole: true}, []string{"no subscription is lost", "tidings.db.second"}}, // the file was removed
		{damage{mended: true, lost: true, left: 3, back: 2}, []string{"subscriptions may be lost", "3 subscriptions"}},
		{damage{mended: true, lost: true}, []string{"subscriptions may be lost", "none could be read", "subscribe again", "/home/x/tidings (tidings.db.damaged-"}},
		{damage{mended: true, lost: true, left: 1}, []string{"1 subscription could be read"}},
		{damage{mended: true, lost: true, left: 3}, []string{"3 subscriptions could be read"}},
	} {
		f, ok := c.damage.finding("/home/x/tidings")
		if ok != (c.want != nil) {
			t.Errorf("%+v: %+v", c.damage, f)
		}
		for _, w := range c.want {
			if said := sentence(f); !strings.Contains(said, w) {
				t.Errorf("%+v: no %q in: %s", c.damage, w, said)
			}
		}
	}
}
