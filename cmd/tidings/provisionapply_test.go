package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/cobra/provision"
	"tidings/proxy"
)

// applied runs "tidings provision apply" for a plan, with the status of each node given as a file, and returns its exit code
// and output.
func applied(t *testing.T, plan provision.Topology, dir string, nodes map[string]*nodeProcess, flags ...string) (int, string) {
	t.Helper()
	raw, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"provision", "apply", file, dir}, flags...)
	for name, n := range nodes {
		status, err := n.runCommand("status", "--json")
		if err != nil {
			t.Fatal(err)
		}
		saved := filepath.Join(filepath.Dir(file), name+".json")
		if err := os.WriteFile(saved, []byte(status), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--status", saved)
	}
	var out, said bytes.Buffer
	code := run(context.Background(), args, strings.NewReader(""), &out, &said)
	return code, out.String() + said.String()
}

// TestProvisionApply: the configuration that apply writes runs the node, and apply tells a node that runs as planned from
// one without the topology, with another plan, and one that it does not reach.
func TestProvisionApply(t *testing.T) {
	const otherPeer = "/ip4/192.0.2.1/udp/4801/quic-v1/p2p/12D3KooW9tJMax94Lrqw7Y5Qw36viGQAS2gTEPQ5Wg1vTk7xPfQs"
	n := startNode(t, "--network", "centre", "--allow-private-origins")
	filter := provision.Node{Name: "filter-1-1", Role: provision.Filter, Links: []string{}, Peer: n.peer}
	crawler := provision.Node{Name: "crawler-1", Role: provision.Crawler, Links: []string{"filter-1-1"}, Peer: otherPeer}
	dir := t.TempDir()
	is := func(code int, state string, nodes ...provision.Node) {
		t.Helper()
		plan := provision.Topology{OutFilters: 1, Nodes: nodes}
		got, out := applied(t, plan, dir, map[string]*nodeProcess{"filter": n}, "--when-full", "drop", "--discover", "0")
		if got != code || !strings.Contains(out, state) {
			t.Errorf("exit code %d, want %d with %q:\n%s", got, code, state, out)
		}
	}
	is(exitFailed, "runs without a topology", filter)
	twice := crawler
	is(exitFailed, `two nodes have the name "filter-1-1"`, filter, provision.Node{Name: filter.Name, Role: filter.Role, Peer: otherPeer})
	twice.Name = "crawler-2"
	is(exitFailed, "crawler-1 and crawler-2 have the same id", filter, crawler, twice)
	n.stop()
	n.flags = []string{"--allow-private-origins", "--config", filepath.Join(dir, "filter-1-1.toml")}
	listen, _, _ := strings.Cut(n.peer, "/p2p/")
	n.start(n.cmd.Path, n.http, listen)
	eventually(t, timeout, "the filter to have its topology", func() error {
		s, err := askJSON[proxy.Status](n, "status")
		if err == nil && (s.Hosting == nil || !s.Hosting.Settled) {
			err = fmt.Errorf("%+v", s.Hosting)
		}
		return err
	})
	is(exitDone, "runs as planned", filter)
	status, err := n.runCommand("status", "--json")
	saved := filepath.Join(dir, "status")
	if err := errors.Join(err, os.WriteFile(saved, []byte(status), 0o600)); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	args := []string{"provision", "--measured", saved, "--feeds", "1000", "--subs", "2000", "--addresses", filepath.Join(dir, "topology.json"), "--json"}
	if code := run(t.Context(), args, strings.NewReader(""), &out, &said); code != exitDone || strings.Count(out.String(), n.peer) != 1 || !strings.HasPrefix(said.String(), "1000 feeds, ") {
		t.Errorf("planned anew: exit code %d, want the filter's address once:\n%s%s", code, out.String(), said.String())
	}
	revision := func(want int) {
		t.Helper()
		if plan, err := readTopology(filepath.Join(dir, "topology.json")); err != nil || plan.Revision != want {
			t.Errorf("revision %d, want %d, %v", plan.Revision, want, err)
		}
	}
	revision(1)
	is(exitFailed, "runs another plan, as filter-1-1", crawler, filter)
	revision(2)
	is(exitFailed, "not reached", crawler, filter)
	revision(2) // it is the same plan
	is(exitFailed, "", filter)
	revision(3) // the first plan again, which is later than the second one
	filter.Role = provision.Reflector
	is(exitFailed, "runs another role: filter", filter)
	eventually(t, timeout, "the filter to say that it does not take its file", func() error {
		s, err := askJSON[proxy.Status](n, "status")
		if err == nil && !strings.Contains(fmt.Sprint(s.Hosting.TopologyError, s.Warnings), "this node was a filter, and is to be a reflector") {
			err = fmt.Errorf("%+v, %v", s.Hosting, s.Warnings)
		}
		return err
	})
	crawler.Links = nil
	is(exitFailed, "which is not in the plan", crawler)
	config, err := os.ReadFile(filepath.Join(dir, "crawler-1.toml"))
	for _, want := range []string{`listen = ["/ip4/0.0.0.0/udp/4801/quic-v1", "/ip4/0.0.0.0/tcp/4801"]`, "discover = 0\n"} {
		if err != nil || !strings.Contains(string(config), want) {
			t.Errorf("%s%v, want %s", config, err, want)
		}
	}
}

// A plan from measurements names the nodes that were not measured, because it does not count what they carry.
func TestNodesThatWereNotMeasuredAreNamed(t *testing.T) {
	status := func(name string, links ...string) string {
		h := &proxy.Hosting{Name: name, Role: "filter", Rates: &proxy.HostingRates{}}
		for _, l := range links {
			h.Links = append(h.Links, proxy.HostingLink{Name: l, Way: "to"})
		}
		b, err := json.Marshal(proxy.Status{PeerID: name, Hosting: h})
		file := filepath.Join(t.TempDir(), name)
		if err := errors.Join(err, os.WriteFile(file, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	filter, reflector := status("filter-1-1", "reflector-2", "crawler-1", "reflector-1"), status("reflector-1", "filter-1-1")
	args := []string{"provision", "--measured", filter, "--measured", reflector, "--feeds", "1000", "--subs", "2000"}
	var out, said bytes.Buffer
	if code := run(t.Context(), args, strings.NewReader(""), &out, &said); code != exitDone || !strings.HasPrefix(said.String(), "not measured: crawler-1, reflector-2. ") {
		t.Errorf("exit code %d:\n%s%s", code, out.String(), said.String())
	}
}
