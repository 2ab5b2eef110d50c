package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/daemon"
	"tidings/internal/daemon/origin"
	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/proxy"
)

// timeout is the limit for everything without a limit of its own. It allows for a busy machine.
const timeout = 60 * time.Second

// A nodeProcess is a node in a process of its own, as "tidings run" starts it.
type nodeProcess struct {
	t            *testing.T
	dir          string
	flags        []string
	env          []string // in addition to the common environment
	http         string   // HOST:PORT where it serves; the same after a restart
	peer         string   // the address by which others join; the same after a restart
	cmd          *exec.Cmd
	begun        time.Time
	ended        chan struct{}
	stopExpected bool // the test is stopping the process
	stderr       *outputTail
	machine      machine // where the process runs; nil for the test's machine
}

// A machine is a network environment in which a process runs.
type machine interface {
	in(do func() error) error
	client() *http.Client
}

// here is the test's own machine.
type here struct{}

func (here) in(do func() error) error { return do() }
func (here) client() *http.Client     { return http.DefaultClient }

// An outputTail is the end of a process's output.
type outputTail struct {
	mu sync.Mutex
	b  []byte
}

// maxTail is how much of the output is kept, and shown when a test fails.
const maxTail = 64 << 10

func (l *outputTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	l.b = l.b[max(0, len(l.b)-maxTail):]
	return len(p), nil
}

func (l *outputTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// startNode starts a node with a new folder that listens on loopback. The node is killed when the test ends.
func startNode(t *testing.T, flags ...string) *nodeProcess {
	t.Helper()
	return startNodeIn(t, filepath.Join(t.TempDir(), "node"), flags...)
}

func startNodeIn(t *testing.T, dir string, flags ...string) *nodeProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, self, dir, flags...)
}

// startProgram starts a node of another build.
func startProgram(t *testing.T, program, dir string, flags ...string) *nodeProcess {
	t.Helper()
	r := &nodeProcess{t: t, dir: dir, flags: flags}
	r.start(program, "127.0.0.1:"+checktest.Port(t), "/ip4/127.0.0.1/tcp/"+checktest.Port(t))
	return r
}

// start starts the process, and waits for its first lines.
func (r *nodeProcess) start(program, http, listen string) {
	r.t.Helper()
	r.ended, r.stderr, r.stopExpected = make(chan struct{}), new(outputTail), false
	home := filepath.Dir(r.dir)
	r.cmd = &exec.Cmd{
		Path: program,
		Args: append([]string{"tidings", "run", "--data", r.dir, "--http", http, "--listen", listen}, r.flags...),
		// Settings in the environment of the test must not affect the node. A node is the test program itself: if
		// it is built with -race, the node ends at its first data race, and the test fails.
		Env:    append([]string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=1"}, r.env...),
		Stderr: r.stderr,
	}
	killWithParent(r.cmd)
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.begun = time.Now()
	if r.machine == nil {
		r.machine = here{}
	}
	if err := r.machine.in(r.cmd.Start); err != nil {
		r.t.Fatal(err)
	}
	lines, ended, stderr := make(chan string, 64), r.ended, r.stderr
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
		_ = r.cmd.Wait() // its state tells the rest
	}()
	r.t.Cleanup(func() {
		if !r.isRunning() && !r.stopExpected {
			r.t.Errorf("%s ended by itself: %v", r.http, r.cmd.ProcessState)
		}
		r.kill()
		if r.t.Failed() {
			r.t.Logf("end of the log of %s (%s):\n%s", r.http, home, stderr)
		}
	})
	r.http, r.peer = "", ""
	late := time.After(timeout)
	// On loopback a node has peers only if private addresses are allowed.
	private := slices.Contains(r.flags, "--allow-private-origins")
	for r.http == "" || r.peer == "" && private {
		select {
		case line, ok := <-lines:
			if !ok {
				<-ended
				r.t.Fatalf("%s ended at once:\n%s", r.dir, stderr)
			}
			switch what, where, _ := strings.Cut(line, " "); what {
			case "reader":
				r.http = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(where), "http://"), "/")
			case "peer":
				r.peer = strings.TrimSpace(where)
			}
		case <-late:
			r.t.Fatalf("%s says nothing", r.dir)
		}
	}
}

// kill ends the process as kill -9 does, and waits for its end.
func (r *nodeProcess) kill() {
	r.stopExpected = true
	_ = r.cmd.Process.Kill() // the process may have ended
	<-r.ended
}

// stop asks the process to end, as Ctrl-C does.
func (r *nodeProcess) stop() {
	r.t.Helper()
	r.stopExpected = true
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		r.t.Fatal(err)
	}
	select {
	case <-r.ended:
	case <-time.After(timeout):
		r.t.Fatalf("%s does not end", r.dir)
	}
	if !r.cmd.ProcessState.Success() {
		r.t.Fatalf("%s ended with %v:\n%s", r.dir, r.cmd.ProcessState, r.stderr)
	}
}

// restart starts a node that has ended: with its folder and addresses, and without bootstrap addresses.
func (r *nodeProcess) restart() {
	r.t.Helper()
	listen, _, _ := strings.Cut(r.peer, "/p2p/")
	r.flags = slices.DeleteFunc(r.flags, func(f string) bool { return f != "--allow-private-origins" && f != "--filter" })
	r.start(r.cmd.Path, r.http, listen)
}

// isRunning reports whether the process runs.
func (r *nodeProcess) isRunning() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// runCommand runs a command that talks to the node, and returns its output.
func (r *nodeProcess) runCommand(args ...string) (string, error) {
	var out bytes.Buffer
	args = append([]string{args[0], "--http", r.http, "--data", r.dir}, args[1:]...)
	if r.machine != (here{}) {
		var words bytes.Buffer
		c := &exec.Cmd{Path: r.cmd.Path, Args: append([]string{"tidings"}, args...), Env: r.cmd.Env, Stdout: &out, Stderr: &words}
		err := r.machine.in(c.Run)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, words.Bytes())
		}
		return out.String(), err
	}
	err := command(context.Background(), args, strings.NewReader(""), &out, io.Discard)
	if err != nil {
		var words strings.Builder
		printError(&words, err)
		err = fmt.Errorf("%w: %s", err, &words)
	}
	return out.String(), err
}

// askJSON returns the node's answer, as the command prints it with --json. It uses a persistent connection, because
// tests ask often while they wait, and a command for each question would take the processor from the nodes.
func askJSON[T any](r *nodeProcess, name string) (v T, err error) {
	b, err := r.call(http.MethodGet, name, nil)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	return v, err
}

// call sends a request to the API of the node.
func (r *nodeProcess) call(method, path string, body []byte) ([]byte, error) {
	token, err := daemon.ReadToken(daemon.APITokenFile(r.dir))
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequest(method, "http://"+r.http+"/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Tidings", "1")
	q.Header.Set("Tidings-Token", token)
	q.Header.Set("Content-Type", "application/json")
	a, err := r.machine.client().Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", a.Status, b)
	}
	return b, err
}

// ask sends a GET request to the node, and returns status and text.
func (r *nodeProcess) ask(path string) (int, string) {
	r.t.Helper()
	a, err := r.machine.client().Get("http://" + r.http + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// metric returns the value of a metric.
func (r *nodeProcess) metric(name string) string {
	_, words := r.ask("/metrics")
	for line := range strings.Lines(words) {
		if label, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && label == name {
			return value
		}
	}
	return "none"
}

// subscribe subscribes, and returns the address to give to a feed reader.
func (r *nodeProcess) subscribe(url string) string {
	r.t.Helper()
	out, err := r.runCommand("subscribe", url)
	if err != nil {
		r.t.Fatalf("subscribe to %s: %v", url, err)
	}
	return strings.TrimSpace(out)
}

// importOne subscribes by importing a list, which does not inspect the address, and returns the address to give to
// a feed reader.
func (r *nodeProcess) importOne(url string) string {
	r.t.Helper()
	list := `<opml version="2.0"><body><outline type="rss" xmlUrl="` + html.EscapeString(url) + `"/></body></opml>`
	if err := command(context.Background(), []string{"opml", "import", "--http", r.http, "--data", r.dir, "-"}, strings.NewReader(list), io.Discard, io.Discard); err != nil {
		r.t.Fatalf("import %s: %v", url, err)
	}
	return r.list()[url].ReadURL
}

// list returns the channels of "tidings list" by address.
func (r *nodeProcess) list() map[string]proxy.Channel {
	r.t.Helper()
	l, err := askJSON[proxy.ListResponse](r, "list")
	if err != nil {
		r.t.Fatalf("list: %v", err)
	}
	channels := map[string]proxy.Channel{}
	for _, c := range l.Channels {
		channels[c.URL] = c
	}
	return channels
}

func (r *nodeProcess) status() proxy.Status {
	r.t.Helper()
	s, err := askJSON[proxy.Status](r, "status")
	if err != nil {
		r.t.Fatalf("status: %v", err)
	}
	return s
}

// readFeed reads a feed as a feed reader would.
func readFeed(address string) (*feed.Feed, http.Header, error) {
	return readFeedBy(http.DefaultClient, address)
}

func readFeedBy(c *http.Client, address string) (*feed.Feed, http.Header, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.Do(q)
	if err != nil {
		return nil, nil, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		return nil, a.Header, err
	}
	if a.StatusCode != http.StatusOK {
		return nil, a.Header, fmt.Errorf("%s: %s", a.Status, bytes.TrimSpace(body))
	}
	f, err := feed.Parse(body, a.Header.Get("Content-Type"))
	return f, a.Header, err
}

// titles returns the titles of a document's items, in order.
func titles(f *feed.Feed) []string {
	var list []string
	for _, it := range f.Items {
		m, err := it.Meaning("http://origin.example/")
		if err != nil {
			m.Title = err.Error()
		}
		list = append(list, m.Title)
	}
	return list
}

// eventually calls try until it returns nil, and fails with its last error.
func eventually(t *testing.T, within time.Duration, what string, try func() error) {
	t.Helper()
	eventuallyEvery(t, 250*time.Millisecond, within, what, try)
}

// eventuallyEvery is eventually with another pace. After a try it waits for at least four times as long as the try
// took, up to a second. A try may run several commands, which would take the processor from the nodes.
func eventuallyEvery(t *testing.T, pace, within time.Duration, what string, try func() error) {
	t.Helper()
	late := time.After(within)
	for {
		begun := time.Now()
		err := try()
		if err == nil {
			return
		}
		select {
		case <-time.After(max(pace, min(4*time.Since(begun), time.Second))):
		case <-late:
			t.Fatalf("%s: not within %v: %v", what, within, err)
		}
	}
}

// startNetwork starts n nodes of one network, and waits until they know each other. The first founds the network
// with the given flags, and the others join.
func startNetwork(t *testing.T, n int, flags ...string) []*nodeProcess {
	t.Helper()
	first := startNode(t, append([]string{"--allow-private-origins"}, flags...)...)
	nodes := []*nodeProcess{first}
	for len(nodes) < n {
		nodes = append(nodes, startNode(t, "--allow-private-origins", "--bootstrap", first.peer))
	}
	waitForMembers(t, nodes)
	return nodes
}

// waitForMembers waits until each node knows all members.
func waitForMembers(t *testing.T, nodes []*nodeProcess) {
	t.Helper()
	eventually(t, 2*timeout, "a network of all", func() error {
		for i, n := range nodes {
			s, err := askJSON[proxy.Status](n, "status")
			if err != nil {
				return err
			}
			if s.EstimateN != len(nodes) || s.State != proxy.StateOK {
				return fmt.Errorf("node %d: %s, of %d members: %q", i, s.State, s.EstimateN, s.Warnings)
			}
		}
		return nil
	})
}

// A testOrigin is an origin whose clock starts on a cue.
type testOrigin struct {
	*origin.Origin
	url   string
	begun atomic.Pointer[time.Time]
	steps atomic.Int64
}

// newTestOrigin serves an origin until the test ends.
func newTestOrigin(t *testing.T) *testOrigin {
	t.Helper()
	s := &testOrigin{}
	s.Origin = origin.New(s.now)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	server := &http.Server{Handler: s.Origin}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return s
}

// now returns the time of the scripts: the time since the cue, plus a second for each step.
func (s *testOrigin) now() time.Duration {
	at := time.Duration(s.steps.Load()) * time.Second
	if begun := s.begun.Load(); begun != nil {
		at += time.Since(*begun)
	}
	return at
}

// cue starts the clock.
func (s *testOrigin) cue() time.Time {
	now := time.Now()
	s.begun.Store(&now)
	return now
}

// step advances the clock by a second.
func (s *testOrigin) step() { s.steps.Add(1) }

// polls counts the requests for a path in a period, or for all paths if it is "".
func (s *testOrigin) polls(path string, since, until time.Time) (n int) {
	for _, q := range s.Requests() {
		if (path == "" || q.Path == path) && q.Time.After(since) && q.Time.Before(until) {
			n++
		}
	}
	return n
}

// growingFeed returns a feed that starts with begin items and gains an item each second, the newest first.
func growingFeed(name string, begin, more int) script.Script {
	var snapshots []script.Snapshot
	for n := begin; n <= begin+more; n++ {
		var b strings.Builder
		fmt.Fprintf(&b, `<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>%s</title><link>http://origin.example/</link><description>d</description>`, name)
		for i := n; i > 0; i-- {
			fmt.Fprintf(&b, `<item><title>%s %d</title><link>http://origin.example/%[1]s/%[2]d</link><guid isPermaLink="false">%[1]s-%[2]d</guid><description>Story %[2]d</description></item>`, name, i)
		}
		b.WriteString(`</channel></rss>`)
		snapshots = append(snapshots, script.Snapshot{Body: []byte(b.String()), ContentType: "application/rss+xml", Hold: time.Second})
	}
	return script.NewReplay(snapshots)
}

// checkTitles compares a list of titles with that of a growing feed with n items.
func checkTitles(name string, n int, got []string) error {
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("%s %d", name, n-i)
	}
	if strings.Join(want, "\n") != strings.Join(got, "\n") {
		return fmt.Errorf("%d items where %d are due: %.300q", len(got), n, got)
	}
	return nil
}

// skipIfShort skips a test of real nodes with -short.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("real nodes take their time: left out with -short")
	}
}
