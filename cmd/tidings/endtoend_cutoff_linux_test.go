package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidings/internal/daemon/origin"
	"tidings/internal/longtest"
	"tidings/proxy"
)

// A cutOffNetwork is a network of three members on separate machines, and two clients that cannot be dialled, as
// behind a NAT. The clients read one feed.
type cutOffNetwork struct {
	t        *testing.T
	lan      *lan
	origin   *testOrigin
	url      string
	members  []*nodeProcess
	clients  []*nodeProcess
	machines []*netns // of the members, then of the clients
	readURLs []string // where the clients' readers read
	items    int      // number of items in the feed
}

// cutOffInterval is the network's polling interval, and the shortest time without news after which a node polls a
// feed itself.
const cutOffInterval = 10 * time.Second

func newCutOffNetwork(t *testing.T) *cutOffNetwork {
	t.Helper()
	h := &cutOffNetwork{t: t, lan: newLAN(t), origin: &testOrigin{}, items: 3}
	h.origin.Origin = origin.New(h.origin.now)
	h.url = "http://" + serveAt(t, lanHost+":0", h.origin.Origin) + "/feed"
	h.origin.Play("/feed", growingFeed("feed", h.items, 20))
	dir := t.TempDir()
	at := func(i int) (*netns, string) {
		m := h.lan.machine(fmt.Sprintf("10.77.0.%d", 10+i))
		h.machines = append(h.machines, m)
		return m, filepath.Join(dir, fmt.Sprint(i), "node")
	}
	for i := range 3 {
		m, dir := at(i)
		flags := []string{"--network", "cut-off", "--poll-interval", cutOffInterval.String()}
		if i > 0 {
			flags = []string{"--bootstrap", h.members[0].peer}
		}
		h.members = append(h.members, launchAt(m, dir, "/ip4/0.0.0.0/tcp/4801", flags...))
	}
	waitForMembers(t, h.members)
	for i := range 2 {
		m, dir := at(3 + i)
		h.clients = append(h.clients, launchAt(m, dir, "/ip4/127.0.0.1/tcp/4801", "--bootstrap", h.members[0].peer))
	}
	for _, c := range h.clients {
		eventually(t, 2*timeout, "a client", func() error {
			if s := c.status(); s.EstimateN < 3 && !strings.Contains(fmt.Sprint(s.Warnings), "cannot connect to this node") {
				return fmt.Errorf("%s: %q", s.State, s.Warnings)
			}
			return nil
		})
		h.readURLs = append(h.readURLs, c.subscribe(h.url))
	}
	h.waitForAll("the first document")
	return h
}

// waitForAll waits until both clients show every item of the feed once, and returns how long that took.
func (h *cutOffNetwork) waitForAll(what string) time.Duration {
	h.t.Helper()
	begun := time.Now()
	eventually(h.t, 2*timeout, what, h.complete)
	return time.Since(begun)
}

func (h *cutOffNetwork) complete() error {
	for i, c := range h.clients {
		f, _, err := readFeedBy(c.machine.client(), h.readURLs[i])
		if err == nil {
			err = checkTitles("feed", h.items, titles(f))
		}
		if err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
	}
	return nil
}

// addItem adds an item at the origin.
func (h *cutOffNetwork) addItem() {
	h.items++
	h.origin.step()
}

// reportsCutOff checks all places where a node says that it hears from no other node.
func (h *cutOffNetwork) reportsCutOff(r *nodeProcess) error {
	s := r.status()
	if !s.CutOff || s.CutOffSince == nil || s.State != proxy.StateCutOff || !strings.Contains(fmt.Sprint(s.Warnings), "has been heard of since") {
		return fmt.Errorf("status: %+v", s)
	}
	if c := r.list()[h.url]; c.State != proxy.StateCutOff || !strings.Contains(c.Error, "polls it itself") || c.Since == nil || c.NextPoll == nil || !c.Polls {
		return fmt.Errorf("list: %+v", c)
	}
	if code, words := r.ask("/readyz"); code != http.StatusOK || !strings.HasPrefix(words, "ok\ncut off\n") {
		return fmt.Errorf("readyz: %d %q", code, words)
	}
	if _, words := r.ask("/"); !strings.Contains(words, proxy.StateCutOff) || !strings.Contains(words, "has been heard of since") {
		return fmt.Errorf("the page does not say it")
	}
	if _, words := r.ask("/metrics"); !strings.Contains(words, "\ntidings_feedtree_cut_off 1\n") || !strings.Contains(words, "\ntidings_feedtree_alone 1\n") {
		return fmt.Errorf("metrics do not say it")
	}
	if out, err := r.runCommand("doctor"); err != nil || !strings.Contains(out, "has been heard of since") {
		return fmt.Errorf("doctor does not say it: %s", out)
	}
	return nil
}

// TestAllMembersKilled kills every member of a network. Its clients, which cannot be dialled, show a new item
// within two polling intervals and say why. When the members are back, no item appears twice. The fast tier tests
// the same in a simulated world (TestClientsWhoseMembersDiedPollForThemselves in sim).
func TestAllMembersKilled(t *testing.T) {
	skipIfShort(t)
	longtest.Only(t, "the processes of a whole network killed")
	t.Parallel()
	if !inOwnNetwork(t) {
		return
	}
	h := newCutOffNetwork(t)
	for _, m := range h.members {
		m.kill()
	}
	h.addItem()
	took := h.waitForAll("a new item without the network")
	t.Logf("a new item was there %v after all members were killed", took)
	if most := 2*cutOffInterval + 5*time.Second; took > most { // 5 s for a busy machine
		t.Errorf("that is more than %v", most)
	}
	for _, c := range h.clients {
		eventually(t, timeout, "words about it", func() error { return h.reportsCutOff(c) })
	}
	h.addItem()
	h.waitForAll("another item without the network")
	for _, m := range h.members {
		m.restart()
	}
	back := time.Now()
	for _, c := range h.clients {
		eventually(t, 3*timeout, "the network", func() error {
			if s, l := c.status(), c.list()[h.url]; s.CutOff || s.State != proxy.StateOK || l.State != proxy.StateOK || l.Error != "" {
				return fmt.Errorf("%s, %s: %s", s.State, l.State, l.Error)
			}
			return nil
		})
	}
	t.Logf("all was well %v after the members came back", time.Since(back))
	h.addItem()
	h.waitForAll("a new item from the network")
	// The log has all items, too: a member that has not read the feed before shows them.
	h.clients = append(h.clients, h.members[1])
	h.readURLs = append(h.readURLs, h.members[1].subscribe(h.url))
	h.waitForAll("the log")
}

// TestAddressChanges changes the addresses of a member and a client while they run. Within half a minute the
// network brings them new items again, and they no longer say that they are cut off.
func TestAddressChanges(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	if !inOwnNetwork(t) {
		return
	}
	h := newCutOffNetwork(t)
	member := h.members[1]
	h.clients = append(h.clients, member)
	h.readURLs = append(h.readURLs, member.subscribe(h.url))
	h.waitForAll("the first document at a member")
	moved := time.Now()
	h.changeAddress(1, 101)
	h.changeAddress(3, 103)
	for _, r := range []*nodeProcess{member, h.clients[0]} {
		h.waitForRecovery(r, moved)
	}
	h.addItem()
	h.waitForAll("a new item at other addresses")
	eventually(t, timeout, "the member at its new address", func() error {
		if s := h.members[0].status(); s.EstimateN != 3 {
			return fmt.Errorf("%d members", s.EstimateN)
		}
		return nil
	})
}

// changeAddress gives a machine another address.
func (h *cutOffNetwork) changeAddress(machine, to int) {
	m := h.machines[machine]
	m.ip(fmt.Sprintf("addr del 10.77.0.%d%s dev eth0", 10+machine, lanMask))
	m.ip(fmt.Sprintf("addr add 10.77.0.%d%s dev eth0", to, lanMask))
}

// waitForRecovery waits until a node on a machine with a new address reports no problems.
func (h *cutOffNetwork) waitForRecovery(r *nodeProcess, moved time.Time) {
	h.t.Helper()
	eventually(h.t, timeout, "the network at another address", func() error {
		if time.Since(moved) < cutOffInterval+5*time.Second { // the node cannot yet have noticed that it hears nothing
			return fmt.Errorf("too early to say")
		}
		switch s, l := r.status(), r.list()[h.url]; {
		case s.CutOff || s.State != proxy.StateOK || l.State != proxy.StateOK || r.metric("tidings_feedtree_alone") != "0":
			return fmt.Errorf("%s, %s: %s", s.State, l.State, l.Error)
		}
		return nil
	})
	took := time.Since(moved)
	if h.t.Logf("all was well %v after the address had changed", took); took > 30*time.Second {
		h.t.Errorf("that is more than half a minute")
	}
}
