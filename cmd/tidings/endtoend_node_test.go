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

	"tidings/internal/daemon"
	"tidings/internal/daemon/origin"
	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/proxy"
)

// patient is how long anything may take that has no time of its own to keep: a
// machine with other work is slow, and not wrong.
const patient = 60 * time.Second

// A runner is a node in a process of its own, as "tidings run" makes it.
type runner struct {
	t      *testing.T
	dir    string
	flags  []string
	env    []string // besides what every node is given
	http   string   // HOST:PORT where it serves; the same after a restart
	peer   string   // how others join through it; the same after a restart
	cmd    *exec.Cmd
	begun  time.Time
	ended  chan struct{}
	meant  bool // that it ends
	stderr *tail
	on     machine // where it runs; nil: here
}

// A machine is where a process runs, as far as its network goes.
type machine interface {
	in(do func() error) error
	client() *http.Client
}

// here is the machine of the test.
type here struct{}

func (here) in(do func() error) error { return do() }
func (here) client() *http.Client     { return http.DefaultClient }

// tail is the end of what a process wrote.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// maxTail is what is kept of it, and shown when a test fails.
const maxTail = 64 << 10

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	l.b = l.b[max(0, len(l.b)-maxTail):]
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// launch starts a node that lives in a new folder and listens on loopback. It is
// killed when the test ends.
func launch(t *testing.T, flags ...string) *runner {
	t.Helper()
	return launchIn(t, filepath.Join(t.TempDir(), "node"), flags...)
}

func launchIn(t *testing.T, dir string, flags ...string) *runner {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return launchProgram(t, self, dir, flags...)
}

// launchProgram starts a node of another build.
func launchProgram(t *testing.T, program, dir string, flags ...string) *runner {
	t.Helper()
	r := &runner{t: t, dir: dir, flags: flags}
	r.start(program, "127.0.0.1:0", "/ip4/127.0.0.1/tcp/0")
	return r
}

// start starts the process, and waits for its first lines.
func (r *runner) start(program, http, listen string) {
	r.t.Helper()
	r.ended, r.stderr, r.meant = make(chan struct{}), new(tail), false
	home := filepath.Dir(r.dir)
	r.cmd = &exec.Cmd{
		Path: program,
		Args: append([]string{"tidings", "run", "--data", r.dir, "--http", http, "--listen", listen}, r.flags...),
		// Settings of whoever runs the test are none of the node's. A node is this
		// very program: built with -race it ends at its first race, and the
		// test sees to the rest.
		Env:    append([]string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=1"}, r.env...),
		Stderr: r.stderr,
	}
	diesWithUs(r.cmd)
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.begun = time.Now()
	if r.on == nil {
		r.on = here{}
	}
	if err := r.on.in(r.cmd.Start); err != nil {
		r.t.Fatal(err)
	}
	lines, ended, stderr := make(chan string, 64), r.ended, r.stderr
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
		_ = r.cmd.Wait() // its state says the rest
	}()
	r.t.Cleanup(func() {
		if !r.lives() && !r.meant {
			r.t.Errorf("%s ended by itself: %v", r.http, r.cmd.ProcessState)
		}
		r.kill()
		if r.t.Failed() {
			r.t.Logf("end of the log of %s (%s):\n%s", r.http, home, stderr)
		}
	})
	r.http, r.peer = "", ""
	late := time.After(patient)
	// On loopback a node has peers only where private addresses are allowed.
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
func (r *runner) kill() {
	r.meant = true
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.ended
}

// stop asks the process to end, as a person would.
func (r *runner) stop() {
	r.t.Helper()
	r.meant = true
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		r.t.Fatal(err)
	}
	select {
	case <-r.ended:
	case <-time.After(patient):
		r.t.Fatalf("%s does not end", r.dir)
	}
	if !r.cmd.ProcessState.Success() {
		r.t.Fatalf("%s ended with %v:\n%s", r.dir, r.cmd.ProcessState, r.stderr)
	}
}

// again starts a node anew that has ended: in its folder, at its old addresses, and
// told of nobody.
func (r *runner) again() {
	r.t.Helper()
	listen, _, _ := strings.Cut(r.peer, "/p2p/")
	r.flags = slices.DeleteFunc(r.flags, func(f string) bool { return f != "--allow-private-origins" && f != "--filter" })
	r.start(r.cmd.Path, r.http, listen)
}

// lives reports whether the process runs.
func (r *runner) lives() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// tell runs a command that talks to the node, and returns what it printed.
func (r *runner) tell(args ...string) (string, error) {
	var out bytes.Buffer
	args = append([]string{args[0], "--http", r.http, "--data", r.dir}, args[1:]...)
	if r.on != (here{}) {
		var words bytes.Buffer
		c := &exec.Cmd{Path: r.cmd.Path, Args: append([]string{"tidings"}, args...), Env: r.cmd.Env, Stdout: &out, Stderr: &words}
		err := r.on.in(c.Run)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, words.Bytes())
		}
		return out.String(), err
	}
	err := command(context.Background(), args, strings.NewReader(""), &out, io.Discard)
	if err != nil {
		var words strings.Builder
		tell(&words, err)
		err = fmt.Errorf("%w: %s", err, &words)
	}
	return out.String(), err
}

// asks returns what a command prints as one JSON object: what the node answers. It asks over a connection that stays
// open, because tests ask often while they wait, and a command for each question would take the processor from the nodes.
func asks[T any](r *runner, name string) (v T, err error) {
	b, err := r.call(http.MethodGet, name, nil)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	return v, err
}

// call sends a request to the API of the node.
func (r *runner) call(method, path string, body []byte) ([]byte, error) {
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
	a, err := r.on.client().Do(q)
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

// ask returns what a node says at a path.
func (r *runner) ask(path string) (int, string) {
	r.t.Helper()
	a, err := r.on.client().Get("http://" + r.http + path)
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

// metric is a count of a node's.
func (r *runner) metric(name string) string {
	_, words := r.ask("/metrics")
	for line := range strings.Lines(words) {
		if of, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && of == name {
			return value
		}
	}
	return "none"
}

// subscribe subscribes, and returns the address to give to a feed reader.
func (r *runner) subscribe(url string) string {
	r.t.Helper()
	out, err := r.tell("subscribe", url)
	if err != nil {
		r.t.Fatalf("subscribe to %s: %v", url, err)
	}
	return strings.TrimSpace(out)
}

// imports subscribes by way of a reader's list, which is not looked into, and returns the address to
// give to the reader.
func (r *runner) imports(url string) string {
	r.t.Helper()
	list := `<opml version="2.0"><body><outline type="rss" xmlUrl="` + html.EscapeString(url) + `"/></body></opml>`
	if err := command(context.Background(), []string{"opml", "import", "--http", r.http, "--data", r.dir, "-"}, strings.NewReader(list), io.Discard, io.Discard); err != nil {
		r.t.Fatalf("import %s: %v", url, err)
	}
	return r.list()[url].ReadURL
}

// list is what "tidings list" knows, by address.
func (r *runner) list() map[string]proxy.Channel {
	r.t.Helper()
	l, err := asks[proxy.Listed](r, "list")
	if err != nil {
		r.t.Fatalf("list: %v", err)
	}
	channels := map[string]proxy.Channel{}
	for _, c := range l.Channels {
		channels[c.URL] = c
	}
	return channels
}

func (r *runner) status() proxy.Status {
	r.t.Helper()
	s, err := asks[proxy.Status](r, "status")
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
	ctx, cancel := context.WithTimeout(context.Background(), patient)
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

// titles are those of a document's items, in order.
func titles(f *feed.Feed) []string {
	var of []string
	for _, it := range f.Items {
		m, err := it.Meaning("http://origin.example/")
		if err != nil {
			m.Title = err.Error()
		}
		of = append(of, m.Title)
	}
	return of
}

// eventually tries until there is nothing to complain about any more, and fails
// with the last complaint.
func eventually(t *testing.T, within time.Duration, what string, try func() error) {
	t.Helper()
	eventuallyEach(t, 250*time.Millisecond, within, what, try)
}

// eventuallyEach does so at another pace. After a try it waits for at least four times as long as the try took, up to
// a second: a try may run several commands, and would take the processor from the nodes that it waits for.
func eventuallyEach(t *testing.T, pace, within time.Duration, what string, try func() error) {
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

// network starts n nodes that share a network, and waits until they are one. The first of them
// makes it, with flags, and the others join.
func network(t *testing.T, n int, flags ...string) []*runner {
	t.Helper()
	first := launch(t, append([]string{"--allow-private-origins"}, flags...)...)
	nodes := []*runner{first}
	for len(nodes) < n {
		nodes = append(nodes, launch(t, "--allow-private-origins", "--bootstrap", first.peer))
	}
	gathered(t, nodes)
	return nodes
}

// gathered waits until each node knows of all, and has its place.
func gathered(t *testing.T, nodes []*runner) {
	t.Helper()
	eventually(t, 2*patient, "a network of all", func() error {
		for i, n := range nodes {
			s, err := asks[proxy.Status](n, "status")
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

// A stage is an origin with a clock that waits for its cue.
type stage struct {
	*origin.Origin
	url   string
	begun atomic.Pointer[time.Time]
	steps atomic.Int64
}

// newStage serves an origin until the test ends.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{}
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

// now is the time of the scripts: that since the cue, and a second for each step.
func (s *stage) now() time.Duration {
	at := time.Duration(s.steps.Load()) * time.Second
	if begun := s.begun.Load(); begun != nil {
		at += time.Since(*begun)
	}
	return at
}

// cue lets the scripts' time begin.
func (s *stage) cue() time.Time {
	now := time.Now()
	s.begun.Store(&now)
	return now
}

// step lets a second pass on a stage without a cue.
func (s *stage) step() { s.steps.Add(1) }

// polls counts the requests for a path since a time; for all, if it is empty.
func (s *stage) polls(path string, since, until time.Time) (n int) {
	for _, q := range s.Requests() {
		if (path == "" || q.Path == path) && q.Time.After(since) && q.Time.Before(until) {
			n++
		}
	}
	return n
}

// serial is a feed that gains an item with each second, the newest ahead, from a
// number of them in the beginning.
func serial(name string, begin, more int) script.Script {
	var of []script.Snapshot
	for n := begin; n <= begin+more; n++ {
		var b strings.Builder
		fmt.Fprintf(&b, `<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>%s</title><link>http://origin.example/</link><description>d</description>`, name)
		for i := n; i > 0; i-- {
			fmt.Fprintf(&b, `<item><title>%s %d</title><link>http://origin.example/%[1]s/%[2]d</link><guid isPermaLink="false">%[1]s-%[2]d</guid><description>Story %[2]d</description></item>`, name, i)
		}
		b.WriteString(`</channel></rss>`)
		of = append(of, script.Snapshot{Body: []byte(b.String()), ContentType: "application/rss+xml", Hold: time.Second})
	}
	return script.NewReplay(of)
}

// counted says that a list of titles is that of a serial with n items.
func counted(name string, n int, of []string) error {
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("%s %d", name, n-i)
	}
	if strings.Join(want, "\n") != strings.Join(of, "\n") {
		return fmt.Errorf("%d items where %d are due: %.300q", len(of), n, of)
	}
	return nil
}

// need returns where a tool is. A test that lacks one is left out, but not in CI:
// there the tools are installed (.ci/run), and a test that does not run would say
// nothing.
func need(t *testing.T, tool, why string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is not installed, and CI is to have it: %s", tool, why)
	}
	t.Skipf("%s is not installed: %s", tool, why)
	return ""
}

// heavy skips a test of real nodes with -short.
func heavy(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("real nodes take their time: left out with -short")
	}
}
