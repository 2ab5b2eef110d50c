package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"tidings/cobra/provision"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// An applyCommand is "tidings provision apply".
type applyCommand struct {
	Plan      string   `arg:"" help:"Topology file, from tidings provision --json, with the address of each node as \"peer\"."`
	Dir       string   `arg:"" help:"Directory for the configurations: NAME.toml for each node, and topology.json."`
	Installed string   `placeholder:"DIR" help:"Directory in which the files are on the nodes (the one to which they are written)."`
	CrawlList string   `placeholder:"FILE" help:"Feeds that the crawlers poll, as the nodes name the file (feeds.opml beside the configurations)."`
	Discover  *int     `placeholder:"N" help:"Requests an hour with which each crawler looks for feeds that the list lacks (60)."`
	WhenFull  string   `enum:"wait,drop" default:"wait" placeholder:"MODE" help:"What a node does when the next node is too slow: wait (default) or drop articles, and count them."`
	Status    []string `placeholder:"FILE" help:"What a node answered to tidings status --json, for nodes that cannot be asked from here. May be repeated."`
}

// Help returns additional help.
func (c *applyCommand) Help() string {
	return "Starts nothing. It writes the configurations, and compares what the nodes do with the plan. It asks a node at the address " +
		"that the topology file gives it as \"http\", with the token that the user's commands have; for other nodes, give --status. " +
		"It fails if a node does not run as planned.\n\n" +
		examples("tidings provision apply plan.json /etc/tidings/centre",
			"tidings provision apply plan.json /etc/tidings/centre --status filter-1-1.json --status reflector-1.json")
}

// A nodeConfig is the configuration file of a node. Its keys are settings of tidings run.
type nodeConfig struct {
	Topology  string   `toml:"topology"`
	Role      string   `toml:"role"`
	CrawlList string   `toml:"crawl-list,omitempty"`
	Discover  *int     `toml:"discover,omitempty"`
	WhenFull  string   `toml:"when-full"`
	HTTP      string   `toml:"http,omitempty"`
	Listen    []string `toml:"listen"`
	Bootstrap []string `toml:"bootstrap,omitempty"`
}

// entryPoints is the number of other nodes that a configuration names, so that a node finds its network again when some of
// them are down.
const entryPoints = 3

// Run writes the configurations, and prints what each node does.
func (c *applyCommand) Run(ctx context.Context, s streams) error {
	plan, err := readTopology(c.Plan)
	if err != nil {
		return fmt.Errorf("provision apply: %w", err)
	}
	ids, names := map[string]string{}, map[string]string{}
	for _, n := range plan.Nodes {
		peer, err := libp2p.ParsePeer(n.Peer)
		if err != nil {
			return fmt.Errorf("provision apply: %s: the \"peer\" of %s: %w", c.Plan, n.Name, err)
		}
		id := libp2p.PeerIDString(peer.ID)
		if other, twice := names[id]; twice {
			return fmt.Errorf("provision apply: %s: %s and %s have the same id in their \"peer\": give each node its own", c.Plan, other, n.Name)
		}
		ids[n.Name], names[id] = id, n.Name
		if n.Name != filepath.Base(n.Name) {
			return fmt.Errorf("provision apply: %s: %q cannot be the name of a file; rename the node", c.Plan, n.Name)
		}
	}
	nodes, err := c.ask(ctx, plan, ids)
	if err != nil {
		return fmt.Errorf("provision apply: %w", err)
	}
	c.number(&plan, nodes)
	if err := c.write(plan); err != nil {
		return fmt.Errorf("provision apply: %w", plainFileError(err))
	}
	different := 0
	t := table{terminal: terminalOf(s.out), columns: []column{{head: "NODE"}, {head: "ROLE"}, {head: "STATE", elastic: 1, wrap: true}}}
	for i, n := range plan.Nodes {
		state, colour := nodes[i].problem, green
		if state == "" {
			state = stateIn(plan, n, ids[n.Name], nodes[i].Status)
		}
		if state != asPlanned {
			different++
			colour = yellow
		}
		t.row(cell{n.Name, bold}, cell{n.Role, plainText}, cell{state, colour})
	}
	if _, err := fmt.Fprint(s.out, t.String()); err != nil {
		return err
	}
	if different > 0 {
		return fmt.Errorf("provision apply: nodes that do not run as planned: %d of %d; copy the files in %s to them, and start those that are down with tidings run --config NAME.toml",
			different, len(plan.Nodes), c.Dir)
	}
	return nil
}

// readTopology reads a topology file.
func readTopology(file string) (plan provision.Topology, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return plan, plainFileError(err)
	}
	if err := json.Unmarshal(raw, &plan); err != nil {
		return plan, fmt.Errorf("%s is not a topology file (%w); write one with tidings provision --json", file, err)
	}
	if len(plan.Nodes) == 0 {
		return plan, fmt.Errorf("%s has no nodes; write another one with tidings provision --json", file)
	}
	if err := plan.Validate(); err != nil {
		return plan, fmt.Errorf("%s: %w", file, err)
	}
	return plan, nil
}

// topologyFile is the topology in the directory of the configurations.
func (c *applyCommand) topologyFile() string { return filepath.Join(c.Dir, "topology.json") }

// number gives the plan its revision: one more than the newest that is known, unless the newest is this plan.
func (c *applyCommand) number(plan *provision.Topology, nodes []nodeAnswer) {
	written, err := readTopology(c.topologyFile())
	plan.Revision = max(plan.Revision, written.Revision)
	for _, n := range nodes {
		plan.Revision = max(plan.Revision, provision.RevisionOf(n.plan()))
	}
	digest := plan.Digest()
	known, other := err == nil && written.Digest() == digest, false
	for _, n := range nodes {
		switch running := n.plan(); {
		case running == digest:
			known = true
		case running != "" && provision.RevisionOf(running) == plan.Revision:
			other = true
		}
	}
	if !known || other {
		plan.Revision++
	}
}

// write writes the files that differ from those in the directory.
func (c *applyCommand) write(plan provision.Topology) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	installed := c.Installed
	if installed == "" {
		var err error
		if installed, err = filepath.Abs(c.Dir); err != nil {
			return err
		}
	}
	var topology bytes.Buffer
	if err := cmp.Or(printJSON(&topology, plan), writeChanged(c.topologyFile(), topology.Bytes())); err != nil {
		return err
	}
	for i, n := range plan.Nodes {
		config := nodeConfig{
			Topology: filepath.Join(installed, "topology.json"), Role: n.Role, WhenFull: c.WhenFull, HTTP: n.HTTP, Listen: listenAddresses(n.Peer),
		}
		if n.Role == provision.Crawler {
			config.CrawlList, config.Discover = cmp.Or(c.CrawlList, filepath.Join(installed, "feeds.opml")), c.Discover
		}
		for j := 1; j < len(plan.Nodes) && j <= entryPoints; j++ {
			config.Bootstrap = append(config.Bootstrap, plan.Nodes[(i+j)%len(plan.Nodes)].Peer)
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "# %s of a hosting centre, written by tidings provision apply. Settings: tidings run --help.\n", n.Name)
		if err := toml.NewEncoder(&b).Encode(config); err != nil {
			return err
		}
		if err := writeChanged(filepath.Join(c.Dir, n.Name+".toml"), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeChanged writes a file that everybody may read, unless it has the content already. Nodes that read it meanwhile get
// the old or the new content.
func writeChanged(name string, content []byte) error {
	old, err := os.ReadFile(name)
	if err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(name+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// listenAddresses returns the addresses at which a node has to listen so that it is reached at its address in the plan: the
// same port, at all interfaces unless the address is a loopback one. The port has to be the same outside.
func listenAddresses(peer string) []string {
	parts := strings.Split(strings.TrimPrefix(peer, "/"), "/") // such as ip4 192.0.2.10 udp 4801 quic-v1 p2p ID
	if len(parts) < 4 {
		return nil
	}
	at := "/" + parts[0] + "/" + parts[1]
	switch {
	case strings.HasPrefix(at, "/ip4/127."), at == "/ip6/::1":
	case parts[0] == "ip6":
		at = "/ip6/::"
	default:
		at = "/ip4/0.0.0.0"
	}
	return []string{at + "/udp/" + parts[3] + "/quic-v1", at + "/tcp/" + parts[3]}
}

// asPlanned is the state of a node that does what the plan says.
const asPlanned = "runs as planned"

// A nodeAnswer is the status of a node, or why there is none.
type nodeAnswer struct {
	proxy.Status
	problem string
}

// plan returns the digest of the topology that the node runs; "" if it is not known.
func (a nodeAnswer) plan() string {
	if a.Hosting == nil {
		return ""
	}
	return a.Hosting.Plan
}

// ask returns what each node of a plan says. ids are the peer ids by the names of the nodes.
func (c *applyCommand) ask(ctx context.Context, plan provision.Topology, ids map[string]string) (answers []nodeAnswer, err error) {
	given := map[string]proxy.Status{}
	for _, source := range c.Status {
		st, err := statusFrom(ctx, source)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(plan.Nodes, func(n provision.Node) bool { return ids[n.Name] == st.PeerID }) {
			return nil, fmt.Errorf("--status %s is that of the node %s, which is not in the plan", source, st.PeerID)
		}
		given[st.PeerID] = st
	}
	for _, n := range plan.Nodes {
		var a nodeAnswer
		st, known := given[ids[n.Name]]
		switch {
		case known:
			a.Status = st
		case n.HTTP == "":
			a.problem = "not reached: give its address as \"http\" in the plan, or its --status"
		default:
			if a.Status, err = statusFrom(ctx, n.HTTP); err != nil {
				a.problem = "not reached: " + err.Error()
			}
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// stateIn compares what a node does with its entry in a plan.
func stateIn(plan provision.Topology, n provision.Node, id string, st proxy.Status) string {
	switch h := st.Hosting; {
	case st.PeerID != id:
		return fmt.Sprintf("another node runs at %s: %s", n.HTTP, st.PeerID)
	case h == nil:
		return "runs without a topology"
	case h.Role != n.Role:
		return fmt.Sprintf("runs another role: %s", h.Role)
	case h.Name != n.Name || h.Plan != plan.Digest():
		state := fmt.Sprintf("runs another plan, as %s", h.Name)
		if h.TopologyError != "" {
			state += ", and does not take that of its file: " + h.TopologyError
		}
		return state
	case !h.Settled:
		return "runs this plan, and the change to it is not complete"
	}
	return asPlanned
}

// statusFrom returns the status of a node: from a file, or from the node if source is a host and port or their URL.
func statusFrom(ctx context.Context, source string) (st proxy.Status, err error) {
	address := strings.TrimSuffix(strings.TrimPrefix(source, "http://"), "/")
	raw, err := os.ReadFile(source)
	if errors.Is(err, fs.ErrNotExist) && isHostPort(address) {
		_, st, err = getAnswer[proxy.Status](ctx, client{HTTP: address}, "status")
		return st, err
	}
	if err != nil {
		return st, plainFileError(err)
	}
	if err := json.Unmarshal(raw, &st); err != nil || st.PeerID == "" {
		return st, fmt.Errorf("%s is not the status of a node; write it with tidings status --json", source)
	}
	return st, nil
}
