package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tidings/internal/daemon/origin"
	"tidings/internal/script"
)

func TestMain(m *testing.M) {
	// Most parallel tests wait for processes and leave the processors idle. By default go test runs as many of them
	// at a time as there are processors, and most CI machines have two. With many more than this number, starting
	// nodes would take the processors from each other, and everything would take longer.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"tidings": main})
}

// storyTime is the timeout for events in a story, much longer than they take.
const storyTime = 20 * time.Second

// TestStories runs the scripts in testdata: real nodes as processes, controlled as a person would. In addition to
// the usual commands of testscript, they can use the commands below.
func TestStories(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state")) // where commands find the tokens of nodes
			e.Values[processes{}] = map[string]*process{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"origin":     cmdOrigin,
			"node":       cmdNode,
			"stop":       cmdStop,
			"crash":      cmdCrash,
			"exits":      cmdExits,
			"eventually": cmdEventually,
			"reads":      cmdReads,
		},
	})
}

// documents holds what an origin serves besides its feeds, by path.
var documents = map[string]script.Snapshot{
	"/page":    {ContentType: "text/html", Body: []byte("<title>Terms</title><link rel=alternate type=application/rss+xml href=rss.xml><p>You owe us nothing.<ul id=due><li>A smile<li>and 1.50 €</ul>")},
	"/picture": {ContentType: "image/png", Body: []byte("\x89PNG\r\n\x1a\n")},
	"/called":  {ContentType: "text/html", Body: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")},
	"/program": {ContentType: "text/html", Body: []byte("<title>App</title><div id=root></div><script src=app.js></script>")},
	"/blank":   {ContentType: "text/html", Body: []byte(" ")},
	"/wall":    {ContentType: "text/html", Body: []byte("<title>Just a moment...</title><p>Enable JavaScript and cookies to continue")},
}

// origin serves two feeds of five items each at $ORIGIN/rss.xml and atom.xml, and documents.
func cmdOrigin(ts *testscript.TestScript, _ bool, _ []string) {
	o := origin.New(origin.Clock(1))
	o.Play("/rss.xml", script.NewLively(script.Config{Seed: 1, Every: time.Hour}))
	o.Play("/atom.xml", script.NewLively(script.Config{Seed: 2, Every: time.Hour, Format: script.Atom}))
	for path, d := range documents {
		o.Play(path, script.NewReplay([]script.Snapshot{d}))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	server := &http.Server{Handler: o}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	ts.Defer(func() {
		server.Close()
		<-served
	})
	ts.Setenv("ORIGIN", "http://"+l.Addr().String())
}

// A process is a running node.
type process struct {
	cmd    *exec.Cmd
	stderr strings.Builder
	ended  chan struct{}
	err    error
}

type processes struct{} // key of a story's processes

func nodes(ts *testscript.TestScript) map[string]*process {
	return ts.Value(processes{}).(map[string]*process)
}

// node NAME [FLAG…] starts a node with the folder NAME, and waits for its first lines. It sets $TIDINGS_HTTP to
// the address at which the node serves, and $NAME to the address by which others can join.
func cmdNode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: node NAME [FLAG…]")
	}
	name := args[0]
	self, err := os.Executable()
	ts.Check(err)
	p := &process{ended: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: self,
		Args: append([]string{"tidings", "run", "--data", ts.MkAbs(name), "--http", "127.0.0.1:0",
			"--listen", "/ip4/127.0.0.1/tcp/0", "--allow-private-origins"}, args[1:]...),
		Dir:    ts.MkAbs("."),
		Env:    []string{"HOME=" + ts.Getenv("HOME"), "XDG_STATE_HOME=" + ts.Getenv("XDG_STATE_HOME"), "PATH=" + ts.Getenv("PATH"), "GORACE=halt_on_error=1"},
		Stderr: &p.stderr,
	}
	out, err := p.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	nodes(ts)[name] = p
	lines := make(chan string)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	ts.Defer(func() {
		p.cmd.Process.Kill()
		for range lines {
		}
		<-p.ended
	})
	late := time.After(storyTime)
	for seen := 0; seen < 2; {
		select {
		case line, ok := <-lines:
			if !ok {
				<-p.ended
				ts.Fatalf("node %s ended: %v\n%s", name, p.err, p.stderr.String())
			}
			ts.Logf("%s", line)
			switch what, where, _ := strings.Cut(line, " "); what {
			case "reader":
				ts.Setenv("TIDINGS_HTTP", strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(where), "http://"), "/"))
				seen++
			case "peer":
				ts.Setenv(name, strings.TrimSpace(where))
				seen++
			}
		case <-late:
			ts.Fatalf("node %s says nothing", name)
		}
	}
}

func end(ts *testscript.TestScript, name string, s os.Signal) error {
	p := nodes(ts)[name]
	if p == nil {
		ts.Fatalf("there is no node %s", name)
	}
	ts.Check(p.cmd.Process.Signal(s))
	select {
	case <-p.ended:
	case <-time.After(storyTime):
		ts.Fatalf("node %s does not end", name)
	}
	ts.Logf("[%s]\n%s", name, p.stderr.String())
	return p.err
}

// stop NAME asks a node to stop, and checks that it stops cleanly.
func cmdStop(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(end(ts, args[0], syscall.SIGTERM))
}

// crash NAME kills a node.
func cmdCrash(ts *testscript.TestScript, _ bool, args []string) {
	if end(ts, args[0], syscall.SIGKILL) == nil {
		ts.Fatalf("node %s ended by itself", args[0])
	}
}

// exits CODE COMMAND… runs a command and checks its exit code. Each line of the error names the program, or is
// indented.
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	err = ts.Exec(args[1], args[2:]...)
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		code = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d where %d is due", code, want)
	}
	stderr := ts.ReadFile("stderr")
	if code == 0 {
		return
	}
	for i, line := range strings.Split(strings.TrimSuffix(stderr, "\n"), "\n") {
		if !strings.HasPrefix(line, "tidings: ") && (i == 0 || !strings.HasPrefix(line, "  ")) {
			ts.Fatalf("not a line of tidings on standard error: %q", stderr)
		}
	}
}

// tryUntil calls try until it returns true.
func tryUntil(ts *testscript.TestScript, what string, try func() bool) {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.After(storyTime)
	for !try() {
		select {
		case <-again.C:
		case <-late:
			ts.Fatalf("never: %s", what)
		}
	}
}

// eventually PATTERN COMMAND… runs a command until its output matches.
func cmdEventually(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(`(?m)` + args[0])
	tryUntil(ts, args[0], func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout"))
	})
}

// reads COUNT URL reads a feed as a feed reader until it has COUNT items.
func cmdReads(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	item := regexp.MustCompile(`<(item|entry)[ >]`)
	tryUntil(ts, fmt.Sprintf("%d items in %s", want, args[1]), func() bool {
		answer, err := http.Get(args[1])
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return err == nil && answer.StatusCode == http.StatusOK && len(item.FindAll(body, -1)) == want
	})
}
