package corona

import (
	"tidings/corona/coronapb"
	"tidings/overlay"
)

// maxSiteFeeds is the number of channels of a domain up to which all of them are fetched because a site there announces news.
// A site of a domain with more has to name its feed.
const maxSiteFeeds = 4

// hintSite tells the budget leader of a domain that something there may have changed. It knows the domain's channels.
func (st *steward) hintSite(domain string) {
	if st.owners == nil {
		return
	}
	if key := overlay.StewardKey(st.cfg.Network, domain); st.states[key] != nil {
		st.onSiteHint(domain, true)
	} else {
		st.routePoliteness(key, domain, siteHint(), func(overlay.Receipt, bool) {})
	}
}

func siteHint() *coronapb.Politeness {
	return &coronapb.Politeness{Body: &coronapb.Politeness_SiteHint{SiteHint: &coronapb.SiteHint{}}}
}

// onSiteHint passes a hint on: to the sequencers of the domain's channels, if this node is the budget leader and they are
// few, otherwise to the budget leader, if forward is set.
func (st *steward) onSiteHint(domain string, forward bool) {
	key := overlay.StewardKey(st.cfg.Network, domain)
	o := st.states[key]
	switch v, _ := st.owners.View(key); {
	case v.Leads && o != nil && len(o.accounts) <= maxSiteFeeds:
		for _, a := range o.accounts {
			st.hint(a.key)
		}
	case forward && !v.Leads && v.Epoch != nil:
		st.sendPoliteness(st.peer(v.Epoch.Sequencer), domain, siteHint())
	}
}
