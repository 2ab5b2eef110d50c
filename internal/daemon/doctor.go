package daemon

import (
	"context"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/locale"
	"tidings/proxy"
)

// Levels of findings.
const (
	levelOK      = "ok"
	levelNote    = "note"
	levelProblem = "problem"
)

const (
	// maxProblemFeeds bounds the feeds that the doctor reports for one reason; list shows all.
	maxProblemFeeds = 20
	// keyChangeAge is how long the doctor reports that a feed's key was changed. Lists and pages show it as long
	// as the former key is known.
	keyChangeAge = 7 * 24 * time.Hour
)

// Doctor returns what is wrong with the node and what to do; see proxy.Subscriptions.
func (st *status) Doctor(ctx context.Context, see func(*proxy.Channel)) ([]proxy.Finding, error) {
	snap, err := st.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	findings := st.findings(snap)
	if snap.Network == "" && see == nil {
		return findings, nil // subscriptions cannot be listed before there is a network
	}
	x := feedExamination{isCutOff: snap.CutOff != nil, now: time.Now()}
	err = st.channels.Each(ctx, func(c *proxy.Channel) {
		if x.examine(c); see != nil {
			see(c)
		}
	})
	if err != nil {
		return nil, err
	}
	findings = append(findings, x.problems...)
	findings = append(findings, x.changedKeys...)
	findings = append(findings, x.failedHubs...)
	findings = append(findings, st.channels.private.findings()...)
	findings = append(findings, st.targets.findings(time.Now())...)
	findings = append(findings, st.contacts.findings(time.Now())...)
	shared, err := st.channels.CountShared(ctx)
	if err != nil {
		return nil, err
	}
	findings = append(findings, st.keywords.findings(shared, st.config.Filter)...)
	findings = append(findings, st.tokens.findings(ctx)...)
	if len(x.problems)+x.reported == 0 && x.all > 0 {
		findings = append(findings, proxy.Finding{Level: levelOK, What: locale.Say("subscriptions: %d, none with problems", x.all)})
	}
	return findings, nil
}

// A feedExamination finds what is wrong with the subscriptions that it examines, at most maxProblemFeeds for each reason.
type feedExamination struct {
	isCutOff      bool // a finding about the network covers the feeds from which the node is cut off
	now           time.Time
	all, reported int // examined, and covered by findings about the node

	problems, changedKeys, failedHubs []proxy.Finding
}

func (x *feedExamination) examine(c *proxy.Channel) {
	x.all++
	note := func(to *[]proxy.Finding, what, do locale.Text) {
		if len(*to) < maxProblemFeeds {
			*to = append(*to, proxy.Finding{Level: levelNote, What: what, Do: do})
		}
	}
	// A feed in good order may have a note about missing items. A feed that no node is known to poll is
	// not in good order.
	well := c.State == proxy.StateOK && c.NextPoll != nil
	switch {
	case c.State == proxy.StateUnsaved || c.State == proxy.StateCutOff && x.isCutOff:
		x.reported++ // a finding about the node's store or network covers this
	case c.Error != "" && !well && c.Do == "":
		note(&x.problems, locale.Say("%s: %s", c.URL, problemOf(c)), locale.Say("nothing: the node tries again by itself"))
	case c.Error != "" && !well:
		note(&x.problems, locale.Say("%s: %s", c.URL, problemOf(c)), locale.Verbatim(c.Do))
	}
	if len(c.FormerKeys) > 0 && c.PublisherSince != nil && x.now.Sub(*c.PublisherSince) <= keyChangeAge {
		note(&x.changedKeys, locale.Say("%s: at %s %s", c.URL, c.PublisherSince.Format("2006-01-02 15:04:05 UTC"), c.KeyChange),
			locale.Say("ask the publisher about the new key, unless you expected it"))
	}
	if c.HubFault != "" {
		note(&x.failedHubs, locale.Say("%s: its hub is not relied on, so the feed is polled as if it had none: %s", c.URL, c.HubFault),
			locale.Say("nothing: the hub is asked again, and relied on when it delivers; if this lasts, tell the owner of the site"))
	}
}

// problemOf returns what is wrong with a channel. It leaves the state out if the error says the same.
func problemOf(c *proxy.Channel) string {
	switch {
	case c.State == kindName(coronapb.State_BROKEN) && c.Kind == proxy.KindFeed:
		return brokenFeed(c.Error)
	case c.State == kindName(coronapb.State_MISSING), strings.Contains(c.Error, c.State):
		return c.Error
	}
	return c.State + ": " + c.Error
}
