package daemon

import (
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"tidings/proxy"
)

var update = flag.Bool("update", false, "write help.go as the layers' comments are")

// The help texts of metrics are the comments on the fields of the layers' Stats. To write help.go anew, run
// go test ./internal/daemon -run TestHelp -update.
func TestHelpMatchesTheLayersComments(t *testing.T) {
	words := map[string]string{}
	for _, dir := range []string{
		"../../overlay", "../../overlay/scribe", "../../overlay/owner", "../../overlay/wedge", "../../overlay/sums",
		"../../overlay/libp2p", "../../corona", "../../feedtree", "../../cobra", "../../cobra/firehose", "../fetch", "../loop", "../store", ".",
	} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || files == nil {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				readStats(t, f, words)
			}
		}
	}
	var b strings.Builder
	b.WriteString("package daemon\n\n// help is what the metrics are, in the words of the layers' Stats: TestHelp writes it.\nvar help = map[string]string{\n")
	for _, name := range slices.Sorted(maps.Keys(words)) {
		fmt.Fprintf(&b, "%q: %q,\n", name, words[name])
	}
	b.WriteString("}\n")
	want, err := format.Source([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("help.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("help.go"); err != nil || string(got) != string(want) {
		t.Errorf("help.go is not what the layers say: write it with go test ./internal/daemon -run TestHelp -update (%v)", err)
	}
}

// Every layer's counts are collected under names that follow Prometheus' conventions. No label names a feed
// or a peer.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := founding(t, "counted")
	c.HTTP, c.AllowPrivateOrigins, c.Version = "127.0.0.1:0", true, "1.2.3"
	m := running(t, c)
	m.awaitMembers(t, 1)
	url := "http://127.0.0.1:1/feed.xml" // nothing listens there
	m.post(t, "subscribe", `{"url":"`+url+`"}`, &proxy.SubscribeMessage{})

	r := prometheus.NewRegistry()
	r.MustRegister(metrics{m.Daemon.status, m.Daemon.fetch})
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("names: %v, %v", problems, err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, f := range families {
		count[strings.Split(f.GetName(), "_")[1]]++
		for _, of := range f.GetMetric() {
			for _, l := range of.GetLabel() {
				if strings.Contains(l.GetValue(), "127.0.0.1") || len(l.GetValue()) > 16 {
					t.Errorf("%s has the label %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
	for _, layer := range []string{"transport", "loop", "store", "fetch", "overlay", "scribe", "owner", "wedge", "sums", "corona", "feedtree", "keywords"} {
		if count[layer] < 5 {
			t.Errorf("%d metrics of %s", count[layer], layer)
		}
	}
	text := m.get(t, "/metrics")
	for _, name := range watchedMetrics(t) {
		if !strings.Contains(text, "\n"+name+" ") && !strings.Contains(text, "\n"+name+"{") {
			t.Errorf("../../ops watches %s, which is not there", name)
		}
	}
	for _, line := range []string{
		`tidings_build_info{goversion="`, "tidings_overlay_leaf 1\n", "tidings_feedtree_subscriptions 1\n", "tidings_subscriptions{state=",
		`tidings_transport_drops_total{class="bulk",reason="queue_full"} 0`, "process_resident_memory_bytes ", "go_goroutines ",
		"# HELP tidings_store_commits_total Commits made durable.\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("there is no %q", line)
		}
	}
	if strings.Contains(text, "process_network_") {
		t.Error("the machine's traffic is shown as the node's")
	}
}

// watchedMetrics returns the metrics that the dashboard and the alerts use.
func watchedMetrics(t *testing.T) (names []string) {
	for _, file := range []string{"grafana.json", "alerts.yml"} {
		b, err := os.ReadFile(filepath.Join("../../ops", file))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, regexp.MustCompile(`tidings_[a-z_]+`).FindAllString(string(b), -1)...)
	}
	if len(names) < 40 {
		t.Fatalf("they watch %d metrics", len(names))
	}
	return names
}

// readStats adds the comments on the fields of the Stats structs in a file.
func readStats(t *testing.T, name string, words map[string]string) {
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Stats" && spec.Name.Name != "ClassStats" && spec.Name.Name != "missedStats" {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
			for _, id := range field.Names {
				is := text
				if is == "" {
					is = strings.ReplaceAll(snake(id.Name), "_", " ")
				}
				words[f.Name.Name+"."+spec.Name.Name+"."+id.Name] = strings.ToUpper(is[:1]) + strings.TrimSuffix(is[1:], ".") + "."
			}
		}
		return false
	})
}
