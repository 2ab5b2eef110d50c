package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"tidings/cobra"
	"tidings/cobra/provision"
	"tidings/cobra/tiers"
	"tidings/internal/feed"
	"tidings/internal/locale"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// Hosting says what a node does in a hosting centre (cobra/tiers). A zero field means its default.
type Hosting struct {
	// Role is crawler, filter or reflector, which the topology has to confirm, or "all": what the topology says. Default
	// "all".
	Role string
	// Topology is the file with the topology. Default empty: the node is in no hosting centre.
	Topology string
	// CrawlList is the file with the feeds that crawlers poll. Crawlers need one; every crawler may have all feeds.
	CrawlList string
	// Discover is how many requests an hour a crawler may spend on looking for feeds that its list lacks, up to 3,600. Default 0:
	// none.
	Discover int
	// Drop lets the node drop articles for a node that is too slow. Default false: it waits.
	Drop bool
}

func (h Hosting) validate() error {
	switch {
	case h.Discover < 0 || h.Discover > tiers.MaxDiscover:
		return fmt.Errorf("--discover %d: give 0 to %d requests an hour", h.Discover, tiers.MaxDiscover)
	case h.Topology != "":
		return nil
	case h.Role != "" && h.Role != "all":
		return fmt.Errorf("--role %s: give the hosting centre's --topology, from tidings provision --json", h.Role)
	case h.CrawlList != "":
		return errors.New("--crawl-list: give the hosting centre's --topology, from tidings provision --json")
	}
	return nil
}

// tiers returns the configuration of the layer.
func (h Hosting) tiers() (c tiers.Config, err error) {
	if h.Topology == "" {
		return c, nil
	}
	raw, err := os.ReadFile(h.Topology)
	if err != nil {
		return c, fmt.Errorf("--topology: %w", err)
	}
	c.Drop, c.Discover = h.Drop, h.Discover
	c.Plan, err = h.plan(raw)
	return c, err
}

// plan reads a topology file.
func (h Hosting) plan(raw []byte) (p tiers.Plan, err error) {
	var t provision.Topology
	if err := json.Unmarshal(raw, &t); err != nil {
		return p, fmt.Errorf("--topology %s: %w; write it with tidings provision --json", h.Topology, err)
	}
	if err := t.Validate(); err != nil {
		return p, fmt.Errorf("--topology %s: %w", h.Topology, err)
	}
	p.OutFilters, p.Digest = t.OutFilters, t.Digest()
	for _, n := range t.Nodes {
		node := tiers.Node{Name: n.Name, Role: n.Role, Links: n.Links}
		if node.Peer, err = libp2p.ParsePeer(n.Peer); err != nil {
			return p, fmt.Errorf("--topology %s: the \"peer\" of %s: %w", h.Topology, n.Name, err)
		}
		p.Nodes = append(p.Nodes, node)
	}
	if len(p.Nodes) == 0 {
		return p, fmt.Errorf("--topology %s has no nodes", h.Topology)
	}
	return p, nil
}

// hosting is the node's part in a hosting centre, outside of the layer.
type hosting struct {
	*nodeLoop
	config   Hosting
	keywords *keywords
	log      *slog.Logger
	// numbers below next were placed by begin.
	next  cobra.SubscriptionID
	rates hostingRates
	// topologyError holds why the node does not take the topology of its file; "" or nil: it has.
	topologyError atomic.Value
	wrong         atomic.Int64 // entries of the list of feeds that are no addresses
}

// begin checks the role, and places the searches that the store has. It runs before the loop does.
func (h *hosting) begin(t *tiers.Tiers) error {
	h.keywords.tier.drop, h.keywords.tier.hosted = h.config.Drop, h.config.Topology != ""
	role := cmp.Or(h.config.Role, "all")
	switch {
	case h.config.Topology == "":
		return nil
	case role != "all" && role != t.Role():
		return fmt.Errorf("--role %s: this node is a %s in %s", role, t.Role(), h.config.Topology)
	case t.Role() == provision.Crawler && h.config.CrawlList == "":
		return errors.New("a crawler needs the list of the feeds that it polls: give --crawl-list FILE")
	case t.Role() != provision.Reflector:
		return nil
	}
	return cobra.Subscriptions(h.keywords.store, 0, func(number cobra.SubscriptionID, s cobra.Subscription) bool {
		t.AddQuery(s.Query)
		h.next = number + 1
		return true
	})
}

// place places a search at the filters, or removes it there. It may be called from any goroutine.
func (h *hosting) place(number cobra.SubscriptionID, text string, made bool) {
	h.loop.Deliver(func() {
		switch {
		case !made:
			h.node.Tiers.RemoveQuery(text)
		case number >= h.next: // begin has not found it
			h.node.Tiers.AddQuery(text)
		}
	})
}

const (
	// hostingInterval is the time between two looks at the files of a hosting centre.
	hostingInterval = 2 * time.Second
	// maxCrawlListErrors bounds the entries of a list that are logged.
	maxCrawlListErrors = 10
)

// A watchedFile is a file that the node reads again when it changes.
type watchedFile struct {
	name    string
	changed time.Time
	read    bool // what it had last was taken
	last    []byte
	failed  string // the last error; empty: none
}

// look gives the content of the file to take, if it is another one than take has accepted last.
func (w *watchedFile) look(take func(raw []byte) error) error {
	info, err := os.Stat(w.name)
	if err != nil || w.read && info.ModTime().Equal(w.changed) {
		return err
	}
	raw, err := os.ReadFile(w.name)
	if err != nil {
		return err
	}
	if !w.read || !bytes.Equal(raw, w.last) {
		if err := take(raw); err != nil {
			return err
		}
	}
	w.changed, w.read, w.last = info.ModTime(), true, raw
	return nil
}

// errorText returns the text of an error; "" if there is none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// failsAnew reports whether an error of look is another one than the last, so that each is logged once.
func (w *watchedFile) failsAnew(err error) bool {
	text := errorText(err)
	anew := text != "" && text != w.failed
	w.failed = text
	return anew
}

// run reads the topology and the list of feeds whenever they change, until ctx ends.
func (h *hosting) run(ctx context.Context) {
	if h.config.Topology == "" {
		return
	}
	topology, list := watchedFile{name: h.config.Topology}, watchedFile{name: h.config.CrawlList}
	for {
		err := topology.look(func(raw []byte) error {
			taken, err := h.replan(ctx, raw)
			list.read = list.read && !taken
			return err
		})
		h.topologyError.Store(errorText(err))
		if topology.failsAnew(err) && ctx.Err() == nil {
			h.log.Error("topology cannot be used; the node goes on with the last one", "file", topology.name, "err", err)
		}
		if list.name != "" {
			err := list.look(func(raw []byte) error { return h.crawl(ctx, raw) })
			if list.failsAnew(err) && ctx.Err() == nil {
				h.log.Error("list of feeds cannot be used; the crawler goes on with the last one", "file", list.name, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(hostingInterval):
		}
	}
}

// replan gives the node the plan of a topology file, and reports whether it is another one than the node had.
func (h *hosting) replan(ctx context.Context, raw []byte) (taken bool, err error) {
	plan, err := h.config.plan(raw)
	if err != nil {
		return false, err
	}
	var failed error
	err = h.do(ctx, func() {
		before := h.node.Tiers.State().Plan
		failed = h.node.Tiers.SetPlan(plan)
		taken = h.node.Tiers.State().Plan != before
	})
	if taken {
		h.log.Info("topology was read", "nodes", len(plan.Nodes))
	}
	return taken, cmp.Or(err, failed)
}

// crawl gives the crawler the feeds of a list.
func (h *hosting) crawl(ctx context.Context, raw []byte) error {
	urls, wrong, err := parseCrawlList(raw)
	if err != nil {
		return err
	}
	for _, line := range wrong[:min(len(wrong), maxCrawlListErrors)] {
		h.log.Warn("entry of the list of feeds is not an address", "entry", line)
	}
	h.wrong.Store(int64(len(wrong)))
	if err = h.do(ctx, func() { h.node.Tiers.SetFeeds(urls) }); err == nil {
		h.log.Info("list of feeds was read", "feeds", len(urls), "wrong", len(wrong))
	}
	return err
}

// parseCrawlList returns the addresses of a list, and the entries that are none.
func parseCrawlList(raw []byte) (urls, wrong []string, err error) {
	add := func(address string) {
		if url, err := feed.Canonical(address); err == nil {
			urls = append(urls, url)
		} else {
			wrong = append(wrong, address)
		}
	}
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<")) {
		for line := range bytes.Lines(raw) {
			if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
				add(string(line))
			}
		}
		return urls, wrong, nil
	}
	outlines, unread, err := feed.ParseOPML(raw)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range unread {
		wrong = append(wrong, fmt.Sprintf("line %d: %s", u.Line, u.Why))
	}
	for _, o := range feed.Subscriptions(outlines) {
		add(o.XMLURL)
	}
	return urls, wrong, nil
}

// notTaken returns why the node does not take the topology of its file; "": it has taken it.
func (h *hosting) notTaken() string {
	why, _ := h.topologyError.Load().(string)
	return why
}

// crawlList says what of its list a crawler cannot poll; nil at other nodes.
func (h *hosting) crawlList(s tiers.State) *proxy.CrawlList {
	if s.Role != provision.Crawler {
		return nil
	}
	list := &proxy.CrawlList{Wrong: int(h.wrong.Load()), Failing: s.Failing, Failures: []proxy.CrawlFailure{}}
	for _, f := range s.Failures {
		list.Failures = append(list.Failures, proxy.CrawlFailure{URL: f.URL, Why: f.Why})
	}
	return list
}

// crawlListFindings returns the doctor's findings about the list of a crawler.
func crawlListFindings(l *proxy.CrawlList) (findings []proxy.Finding) {
	if l == nil {
		return nil
	}
	if l.Wrong > 0 {
		findings = append(findings, proxy.Finding{Level: levelNote, What: locale.Say("entries of the list of feeds that are no addresses: %d", l.Wrong), Do: locale.Say("correct them; the log has the first ones")})
	}
	if l.Failing > 0 {
		first := l.Failures[0]
		findings = append(findings, proxy.Finding{Level: levelNote, What: locale.Say("feeds of the list whose last poll failed: %d, such as %s: %s", l.Failing, first.URL, first.Why),
			Do: locale.Say("check the addresses; tidings status --json has the first ten, with reasons")})
	}
	return findings
}

// hostingStatus converts the state of the layer for readers.
func hostingStatus(s tiers.State) *proxy.Hosting {
	if s.Role == "" {
		return nil
	}
	h := &proxy.Hosting{
		Name: s.Name, Role: s.Role, Plan: s.Plan, Feeds: s.Feeds, Queries: s.Queries, Placed: s.Placed,
		Settled: s.Settled, Retired: s.Retired, WaitsFor: s.WaitsFor, WaitsSince: proxy.OptionalTime(s.Since), Articles: s.Stats.Found + s.Stats.Received,
		Links: []proxy.HostingLink{},
	}
	add := func(way string, links []tiers.LinkState) {
		for _, l := range links {
			h.Links = append(h.Links, proxy.HostingLink{Name: l.Name, Way: way, Waiting: l.Items, Bytes: l.Bytes, Dropped: l.Dropped, Heard: proxy.OptionalTime(l.Heard)})
		}
	}
	add("to", s.Down)
	add("from", s.Up)
	return h
}

// hostingSilence is how long a node of a hosting centre may be silent: twice the time between two signs of life.
const hostingSilence = time.Minute

// hostingFindings returns the doctor's findings about the node's part in a hosting centre. notTaken is why the node does not take
// the topology of its file.
func hostingFindings(s tiers.State, notTaken string, now time.Time) (findings []proxy.Finding) {
	if s.Role == "" {
		return nil
	}
	add := func(level string, what, do locale.Text) {
		findings = append(findings, proxy.Finding{Level: level, What: what, Do: do})
	}
	add(levelOK, locale.Say("this node is %s, a %s of a hosting centre", s.Name, s.Role), nil)
	if notTaken != "" {
		add(levelNote, locale.Say("the node goes on with the topology that it has, because it does not take that of its file: %s", notTaken),
			locale.Say("give all nodes the file that tidings provision apply has written"))
	}
	switch {
	case s.Retired && s.Settled:
		add(levelNote, locale.Say("this node is not in the topology any more, and nobody waits for it"), locale.Say("stop it"))
	case !s.Settled:
		add(levelNote, locale.Say("the last change of the topology is not complete: articles of the plan before are still under way"),
			locale.Say("run all nodes of both topologies until it is"))
	}
	silent := func(l tiers.LinkState) bool { return now.Sub(l.Heard) > hostingSilence }
	links := slices.Concat(s.Down, s.Up)
	see := func(name string) locale.Text { // what a node that runs says itself
		if slices.ContainsFunc(links, func(l tiers.LinkState) bool { return l.Name == name && silent(l) }) {
			return locale.Say("check whether it runs, and its address in the topology")
		}
		return locale.Say("run tidings doctor on %s", name)
	}
	full := slices.ContainsFunc(s.Down, func(l tiers.LinkState) bool { return !l.Full.IsZero() })
	if s.WaitsFor != "" && s.Role == provision.Filter && !full {
		add(levelNote, locale.Say("this node takes no articles by the new topology until it has the searches of %s", s.WaitsFor),
			locale.Say("check whether %s runs and has the same topology", s.WaitsFor))
	} else if s.WaitsFor != "" {
		add(levelNote, locale.Say("this node waits for %s, because it or a node before it has had a full queue since %s", s.WaitsFor, s.Since.UTC().Format("2006-01-02 15:04:05 UTC")), see(s.WaitsFor))
	}
	for _, l := range s.Down {
		if l.Dropped > 0 {
			add(levelNote, locale.Say("articles dropped for %s, because its queue was full: %d", l.Name, l.Dropped), see(l.Name))
		}
	}
	for _, l := range s.Up {
		if l.Dropped > 0 {
			add(levelNote, locale.Say("articles for this node that %s has dropped, because this node was too slow: %d", l.Name, l.Dropped), resourceRemedy)
		}
	}
	for _, l := range links {
		if silent(l) {
			add(levelNote, locale.Say("%s is silent", l.Name), locale.Say("check whether it runs, and its address in the topology"))
		}
	}
	return findings
}
