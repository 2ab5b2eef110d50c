package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/adrg/xdg"

	"tidings/internal/wire"
)

// parsed parses a command line with a configuration file.
func parsed(t *testing.T, file string, args ...string) (*grammar, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	g := new(grammar)
	_, err := parse(g, append(args, "--config", path), io.Discard)
	return g, err
}

func TestFlagBeforeEnvironmentBeforeFileBeforeDefault(t *testing.T) {
	const inFile = `http = "127.0.0.1:3"`
	for _, c := range []struct{ flag, env, file, want string }{
		{"127.0.0.1:1", "127.0.0.1:2", inFile, "127.0.0.1:1"},
		{"", "127.0.0.1:2", inFile, "127.0.0.1:2"},
		{"127.0.0.1:1", "", inFile, "127.0.0.1:1"},
		{"", "", inFile, "127.0.0.1:3"},
		{"", "", "", defaultHTTP},
	} {
		t.Run(c.want, func(t *testing.T) {
			if c.env != "" {
				t.Setenv("TIDINGS_HTTP", c.env)
			}
			for _, command := range []string{"run", "list"} {
				args := []string{command}
				if c.flag != "" {
					args = append(args, "--http", c.flag)
				}
				g, err := parsed(t, c.file, args...)
				if err != nil {
					t.Fatal(err)
				}
				got := g.Run.HTTP
				if command == "list" {
					got = g.List.HTTP
				}
				if got != c.want {
					t.Errorf("%s: %q, want %q", command, got, c.want)
				}
			}
		})
	}
}

func TestSettingsOfEveryKindComeFromTheFile(t *testing.T) {
	g, err := parsed(t, `
		listen = ["/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/udp/1/quic-v1"]
		bootstrap = "/ip4/127.0.0.1/tcp/2/p2p/12D3KooW9tJMax94Lrqw7Y5Qw36viGQAS2gTEPQ5Wg1vTk7xPfQs"
		allow-private-origins = true
		base-url = "http://nas.example:8190"
		poll-interval = "2s"
		load = 0.5
		owners = 3
	`, "run", "--data", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := g.Run
	if len(r.Listen) != 2 || len(r.Bootstrap) != 1 || !r.AllowPrivateOrigins ||
		*r.NetworkFlags.PollInterval != 2*time.Second || *r.NetworkFlags.Load != 0.5 || *r.NetworkFlags.Owners != 3 {
		t.Errorf("%+v", r)
	}
	r.Bootstrap = nil // otherwise it would not found a network
	if d, err := r.config(); err != nil || d.BaseURL != "http://nas.example:8190" {
		t.Errorf("base URL %q, %v", d.BaseURL, err)
	}
	if r.NetworkFlags.Scheme != nil {
		t.Error("a scheme that nobody asked for")
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"\n# a remark\npol-interval = \"2s\"", `config.toml, line 3: unknown setting "pol-interval"; did you mean "poll-interval"?`},
		{"[run]\nhttp = \"x\"", `config.toml, line 1: unknown setting "run"`},
		{"poll-interval = 10s", `config.toml, line 1: write text and durations in quotes: poll-interval = "10s"`},
		{"load = 1\nhttp = 127.0.0.1:1 # here", `config.toml, line 2: write text and durations in quotes: http = "127.0.0.1:1"`},
		{`poll-interval = "soon"`, `config.toml: poll-interval: "soon" is not a duration`},
		{`json = true`, `unknown setting "json"`},
		{`failing = true`, `unknown setting "failing"`},
		{`version = true`, `unknown setting "version"`},
		{`config = "other.toml"`, `unknown setting "config"`},
		{`http = ["a", "b"]`, "config.toml: give one value"},
		{`http = 1979-05-27`, "config.toml: http: give a text"},
		{`listen = [1, 2]`, "config.toml: listen: give a list of texts"},
		{"load = 1\nload = 2", "config.toml, line 2:"},
		{`load = "much"`, `config.toml: load: "much" is not a number`},
		{`load = `, "config.toml, line 1:"},
		{`quiet = "perhaps"`, `config.toml: quiet: "perhaps" is neither true nor false; write true or false`},
	} {
		if _, err := parsed(t, c.file, "run"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot:  %v\nwant: %s", c.file, err, c.want)
		}
	}
}

func TestNetworkIsFoundedOrJoined(t *testing.T) {
	const peer = "/ip4/127.0.0.1/tcp/2/p2p/12D3KooW9tJMax94Lrqw7Y5Qw36viGQAS2gTEPQ5Wg1vTk7xPfQs"
	tidings := wire.DefaultNetwork("tidings")
	lab := wire.DefaultNetwork("lab")
	lab.PollInterval, lab.Objective, lab.PrivateAddresses = 2*time.Second, "fair", true
	paper := wire.DefaultNetwork("tidings")
	paper.Wedge, paper.Clusters, paper.Phases, paper.Decide = "base16", "paper", "random", "sequencer"
	small := wire.DefaultNetwork("tidings")
	small.Owners, small.Witnesses = 2, 2

	for _, c := range []struct {
		args    string
		settled bool
		found   *wire.Network
		join    string
		err     string
	}{
		{args: "", found: &tidings},
		{args: "", settled: true},
		{args: "--network lab", settled: true, join: "lab"},
		{args: "--network lab --poll-interval 2s --objective fair --allow-private-origins", found: &lab},
		{args: "--network lab --poll-interval 2s --objective fair --allow-private-origins", settled: true, found: &lab},
		{args: "--scheme paper --decide sequencer", found: &paper},
		{args: "--owners 2", found: &small},
		{args: "--bootstrap " + peer},
		{args: "--bootstrap " + peer + " --network lab", join: "lab"},
		{args: "--mdns"},
		{args: "--mdns --owners 2", found: &small},
		{args: "--owners 2 --bootstrap " + peer, err: "either --bootstrap"},
		{args: "--owners 9", err: "owners 9"},
		{args: "--network a/b", err: "network name"},
		{args: "--load 0.0001", err: "load"},
	} {
		dir := t.TempDir()
		if c.settled {
			os.WriteFile(filepath.Join(dir, "network"), nil, 0o600)
		}
		g, err := parsed(t, "", append([]string{"run", "--data", dir}, strings.Fields(c.args)...)...)
		if err != nil {
			t.Fatalf("%s: %v", c.args, err)
		}
		d, err := g.Run.config()
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.args, err, c.err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if (d.Found == nil) != (c.found == nil) || d.Found != nil && *d.Found != *c.found {
			t.Errorf("%s: founds %+v, want %+v", c.args, d.Found, c.found)
		}
		if d.Network != c.join {
			t.Errorf("%s: joins %q, want %q", c.args, d.Network, c.join)
		}
	}
}

func TestEveryNetworkFlagIsReportedAsGiven(t *testing.T) {
	var args []string
	for _, f := range []string{"poll-interval=1m", "maintenance-interval=1m", "beat-interval=1m", "objective=lite",
		"target-detection=1s", "load=1", "owners=1", "scheme=bound", "wedge=rank", "clusters=bins", "phases=even", "decide=sequencer"} {
		args = append(args, "--"+f)
	}
	g, err := parsed(t, "", append([]string{"run"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range args {
		args[i], _, _ = strings.Cut(args[i], "=")
	}
	given := g.Run.givenNetworkFlags()
	slices.Sort(given)
	slices.Sort(args)
	if !slices.Equal(given, args) {
		t.Errorf("given %v, want %v", given, args)
	}
}

func TestNoPortMappingForLoopback(t *testing.T) {
	for _, c := range []struct {
		listen string
		want   bool
	}{
		{"", false},
		{"/ip4/127.0.0.1/tcp/0", true},
		{"/ip4/127.0.0.1/tcp/0 /ip6/::1/tcp/0", true},
		{"/ip4/127.0.0.1/tcp/0 /ip4/0.0.0.0/tcp/0", false},
		{"/ip6/::/tcp/0", false},
	} {
		if got := onlyLoopback(strings.Fields(c.listen)); got != c.want {
			t.Errorf("%q: %v", c.listen, got)
		}
	}
}

func TestAMissingHomeIsReported(t *testing.T) {
	t.Cleanup(xdg.Reload)
	url := newFakeNode(t, 200, `{"channels":[]}`)
	for _, variable := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TIDINGS_DATA"} {
		t.Setenv(variable, "")
	}
	xdg.Reload()
	var out, stderr bytes.Buffer
	code := run(t.Context(), []string{"run", "--http", "none"}, strings.NewReader(""), &out, &stderr)
	want := "tidings: HOME is not set, so the data directory is not known: give it with --data DIR; see tidings run --help\n"
	if code != exitUsage || stderr.String() != want {
		t.Errorf("%d %q", code, stderr.String())
	}
	if code := run(t.Context(), []string{"list", "--http", strings.TrimPrefix(url, "http://")}, strings.NewReader(""), &out, &stderr); code != exitDone {
		t.Errorf("%d %q", code, stderr.String())
	}
	dir := t.TempDir()
	t.Setenv("XDG_DATA_HOME", dir)
	xdg.Reload()
	if got, want := dataDir(), filepath.Join(dir, "tidings"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The lists of other readers are looked for in the folders of the user, and nowhere if the user has none.
func TestPlacesOfListsOfOtherReaders(t *testing.T) {
	t.Cleanup(xdg.Reload)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "settings"))
	xdg.Reload()
	var places []string
	for _, l := range readerLists() {
		places = append(places, l.Path)
	}
	for _, want := range []string{"settings/newsboat/urls", ".newsboat/urls", "settings/liferea/feedlist.opml"} {
		if !slices.Contains(places, filepath.Join(home, want)) {
			t.Errorf("%s is not among %q", want, places)
		}
	}
	t.Setenv("HOME", "")
	if got := readerLists(); len(got) > 0 {
		t.Errorf("without a home: %q", got)
	}
}

func TestErrorsSayWhereANetworkSettingWasGiven(t *testing.T) {
	t.Setenv("TIDINGS_OWNERS", "3")
	g, err := parsed(t, `load = 2`, "run", "--scheme", "bound", "--wedge", "rank")
	if err != nil {
		t.Fatal(err)
	}
	got := g.Run.sources
	if !strings.HasSuffix(got["load"], "config.toml") {
		t.Errorf("load stands in %q", got["load"])
	}
	delete(got, "load")
	want := map[string]string{"owners": "the environment variable TIDINGS_OWNERS", "scheme": "the flag --scheme", "wedge": "the flag --wedge",
		"clusters": "the flag --scheme", "phases": "the flag --scheme", "decide": "the flag --scheme"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMisspeltVariablesAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"TIDINGS_POLL_INTRVAL":    "unknown environment variable TIDINGS_POLL_INTRVAL; did you mean TIDINGS_POLL_INTERVAL?",
		"TIDINGS_BOOTSTRAPS":      "did you mean TIDINGS_BOOTSTRAP?",
		"TIDINGS_POLL_INTERVAL":   "",
		"TIDINGS_PASSPHRASE":      "",
		"TIDINGS_PASSPHRASE_FILE": "",
		"TIDINGS_TESTS":           "",
		"TIDINGS_PORT":            "", // as Kubernetes sets for a service named tidings
		"TIDINGS_SERVICE_HOST":    "",
		"TIDING_DATA":             "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "5m")
			_, err := parsed(t, "", "run")
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if _, err := parsed(t, "", "list"); err != nil {
				t.Errorf("list: %v", err)
			}
		})
	}
}
