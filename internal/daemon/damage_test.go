package daemon

import (
	"strings"
	"testing"

	"tidings/proxy"
)

func TestStoreDamageIsDescribed(t *testing.T) {
	for _, c := range []struct {
		damage storeDamage
		want   []string // parts of the text; nil: there is no finding
	}{
		{storeDamage{}, nil},
		{storeDamage{lost: true, subscriptions: 3}, nil}, // the store is new or was replaced, which other findings report
		{storeDamage{repaired: true, subscriptions: 3}, []string{"damaged", "no subscription is lost", "again from the network"}},
		{storeDamage{repaired: true, lost: true, subscriptions: 3, restored: 2, complete: true}, []string{"damaged", "no subscription is lost", "2 missing records", "tidings.db.second"}},
		{storeDamage{lost: true, subscriptions: 2, restored: 2, complete: true}, []string{"no subscription is lost", "tidings.db.second"}}, // the file was removed
		{storeDamage{repaired: true, lost: true, subscriptions: 3, restored: 2}, []string{"subscriptions may be lost", "3 subscriptions"}},
		{storeDamage{repaired: true, lost: true}, []string{"subscriptions may be lost", "none could be read", "subscribe again", "/home/x/tidings (tidings.db.damaged-"}},
		{storeDamage{repaired: true, lost: true, subscriptions: 1}, []string{"1 subscription could be read"}},
		{storeDamage{repaired: true, lost: true, subscriptions: 3}, []string{"3 subscriptions could be read"}},
	} {
		f, ok := c.damage.finding("/home/x/tidings")
		if ok != (c.want != nil) {
			t.Errorf("%+v: %+v", c.damage, f)
		}
		for _, w := range c.want {
			if said := (proxy.Warning{What: f.What, Do: f.Do}).String(); !strings.Contains(said, w) {
				t.Errorf("%+v: no %q in: %s", c.damage, w, said)
			}
		}
	}
}
