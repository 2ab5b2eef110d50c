//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/longtest"
)

// A skippedBlock is a block of a page that this test does not run, with the reason.
type skippedBlock struct{ page, first, why string }

// skippedBlocks lists the blocks that are not run, by the start of their first line. A block that is neither run
// nor listed fails the test, and so does an entry that matches no block. The page "*" stands for all pages, and
// then for all lines of a block: no test runs sudo.
var skippedBlocks = []skippedBlock{
	{"README.md", "   feed's web server", "a picture"},
	{"README.md", "go test ./...", "this test is a part of it; ci_test.go has CI run it"},
	{"README.md", "go run ./cmd/tidings demo", "takes a minute; demo_test.go runs it with fewer feeds"},
	{"docs/guide/operations.md", "scrape_configs:", "a part of Prometheus's configuration"},
	{"docs/guide/operations.md", "location ~", "a part of nginx's configuration"},
	{"docs/guide/api.md", "curl -N", "the stream does not end; TestEventsOfANode reads it"},
	{"docs/guide/notifications.md", "tidings notify test", "needs a receiver and the id of a target"},
	{"docs/guide/hosting.md", "tidings run --config /etc/tidings/crawler-1.toml", "a node of a hosting centre; TestProvisionApply has one"},
	{"docs/guide/messenger.md", "   tidings run --xmpp-jid", "needs an XMPP server; TestMessenger has one"},
	{"docs/guide/tokens.md", "feeds.example.org {", "a part of Caddy's configuration; TestWhatReverseProxiesPassOn reads it"},
	{"docs/guide/tokens.md", "server {", "a part of nginx's configuration; the same"},
	{"docs/guide/settings.md", "poll-interval =", "a line of a configuration file; settings_test.go reads such"},

	{"docs/guide/install.md", "packaging/release.sh", "builds packages, as make packages does"},
	{"docs/guide/install.md", "schtasks ", "a command of Windows"},

	{"docs/guide/networks.md", "tidings run --authority", "a node of another network is running"},
	{"docs/guide/networks.md", "tidings network admit", "needs the peer id of another node"},
	{"*", "sudo", "changes the machine"},
	{"*", "apt", "changes the machine"},
	{"*", "brew ", "changes the machine"},
	{"*", "systemctl ", "changes the machine"},
	{"*", "journalctl ", "reads the machine's log"},
	{"*", "docker ", "needs Docker and an image"},
	{"*", "podman ", "needs Podman and an image"},
	{"*", "git clone", "needs the repository's address"},
	{"*", "[Unit]", "a unit of systemd"},
	{"*", "services:", "a part of Compose's configuration"},
}

// TestDocs runs every command block of README.md and of the guides, from the top of each page to the bottom, as a
// reader would. It compares the output where the page shows some. Ports are free ones, and a web server of the test
// stands for the sites in the text.
func TestDocs(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	bash := checktest.Tool(t, "bash", "it runs the commands of the pages")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/guide/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	used := make([]bool, len(skippedBlocks))
	read := map[string]bool{} // pages that were read; all of them unless -run selects some
	var mu sync.Mutex
	build := &buildCache{done: map[string]error{}}
	t.Run("pages", func(t *testing.T) {
		for _, file := range append(pages, filepath.Join(root, "README.md")) {
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				r := newPageRunner(t, bash, root, build)
				mu.Lock()
				read[name] = true
				mu.Unlock()
				for _, b := range blocksIn(string(text)) {
					i := slices.IndexFunc(skippedBlocks, func(p skippedBlock) bool {
						return p.page == name && strings.HasPrefix(b.text, p.first) ||
							p.page == "*" && strings.Contains("\n"+b.text, "\n"+p.first)
					})
					if i >= 0 {
						mu.Lock()
						used[i] = true
						mu.Unlock()
						continue
					}
					if !r.run(b) {
						t.Fatalf("%s:%d: the commands do not do what the page says; if nobody can run them, list them in skippedBlocks:\n%s", name, b.line, b.text)
					}
				}
			})
		}
	})
	for i, p := range skippedBlocks {
		if !used[i] && read[p.page] {
			t.Errorf("%s has no block any more that begins with %q", p.page, p.first)
		}
	}
}

// A block is an indented or fenced block of a page.
type block struct {
	line int
	text string
}

// blocksIn returns the blocks of a page.
func blocksIn(page string) (blocks []block) {
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		fence := strings.HasPrefix(lines[i], "```")
		b := block{line: i + 1}
		switch {
		case fence:
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
				b.text += lines[i] + "\n"
			}
		case strings.HasPrefix(lines[i], "    ") && (i == 0 || lines[i-1] == ""):
			for ; i < len(lines) && (strings.HasPrefix(lines[i], "    ") || lines[i] == ""); i++ {
				b.text += strings.TrimPrefix(lines[i], "    ") + "\n"
			}
			b.text = strings.TrimRight(b.text, "\n") + "\n"
			i--
		default:
			continue
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// A pageRunner runs one page in a folder of its own.
type pageRunner struct {
	t     *testing.T
	bash  string
	root  string // of the repository
	home  string
	site  *httptest.Server
	swap  *strings.Replacer
	nodes map[string]*docNode // by data folder; "" for the default one
	build *buildCache

	founder string // data folder of the node through which others join
}

// A docNode is a node that a page has started.
type docNode struct {
	cmd   *exec.Cmd
	ended chan error
	peer  string
}

// A buildCache shares the results of commands that compile, because they take seconds and occur on several pages.
type buildCache struct {
	mu   sync.Mutex
	done map[string]error
}

const peerOfPage = "/p2p/12D3…" // how pages shorten the address of a node

// newPageRunner prepares a folder with the files that pages assume: an OPML file, a built site, a feed reader's
// list of addresses, and a web server.
func newPageRunner(t *testing.T, bash, root string, build *buildCache) *pageRunner {
	r := &pageRunner{t: t, bash: bash, root: root, home: t.TempDir(), nodes: map[string]*docNode{}, build: build}
	www := filepath.Join(r.home, "public")
	feed := `<rss version="2.0"><channel><title>Example</title><link>http://a.example/</link><description/>` +
		`<item><guid>1</guid><title>One</title><description>Solar and battery</description></item></channel></rss>`
	page := `<title>Releases</title><main><h2>Release 2</h2><p>Version one was released, and nobody has found a fault in it yet.`
	r.site = httptest.NewServer(http.FileServer(http.Dir(www)))
	t.Cleanup(r.site.Close)
	for name, text := range map[string]string{
		"public/feed.xml":   feed,
		"public/index.xml":  feed,
		"public/page.html":  page,
		"mine.opml":         `<opml version="2.0"><body><outline type="rss" text="A" xmlUrl="` + r.site.URL + `/index.xml"/></body></opml>`,
		".newsboat/urls":    "",
		"stubs/hugo":        "#!/bin/sh\n", // would build public, which exists
		"stubs/rsync":       "#!/bin/sh\n", // would copy it to the web server, which serves it here
		"keys/.placeholder": "",
	} {
		name = filepath.Join(r.home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	swaps := []string{
		"https://go.dev/blog/feed.atom", r.site.URL + "/feed.xml",
		"https://go.dev/doc/devel/release", r.site.URL + "/page.html",
		"https://USER:PASSWORD@blog.example/", strings.Replace(r.site.URL, "//", "//USER:PASSWORD@", 1) + "/",
		"https://blog.example/feed.xml", r.site.URL + "/feed.xml",
		"https://blog.example/index.xml", r.site.URL + "/index.xml",
		"go run ./cmd/tidings", "tidings", // the program of this test
		"0.0.0.0", "127.0.0.1",
		"/tmp/", r.home + "/tmp/",
		"-o bin/", "-o " + r.home + "/bin/",
	}
	for _, p := range []string{"8190", "8191", "8192", "8193", "4811", "4812", "4813", "8000"} {
		swaps = append(swaps, p, checktest.Port(t))
	}
	r.swap = strings.NewReplacer(swaps...)
	t.Cleanup(r.stopNodes)
	return r
}

// stopNodes stops the nodes with SIGINT, as Ctrl-C does, and checks that they end cleanly.
func (r *pageRunner) stopNodes() {
	for dir := range r.nodes {
		r.stop(dir)
	}
}

func (r *pageRunner) stop(dir string) {
	n := r.nodes[dir]
	delete(r.nodes, dir)
	if n == nil {
		return
	}
	_ = n.cmd.Process.Signal(os.Interrupt)
	select {
	case err := <-n.ended:
		if err != nil {
			r.t.Errorf("a node was interrupted and ended with: %v", err)
		}
	case <-time.After(storyTime):
		_ = n.cmd.Process.Kill()
		r.t.Error("a node does not end")
	}
}

// A step is one command of a block, with the output that the page shows.
type step struct {
	command string
	output  []string
}

// stepsIn splits a block into steps. A block with "$ " shows output. Any other block is one script, except that
// commands that keep running are separate steps.
func stepsIn(text string) (steps []step) {
	if strings.HasPrefix(text, "$ ") {
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if c, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, step{command: c})
			} else {
				steps[len(steps)-1].output = append(steps[len(steps)-1].output, line)
			}
		}
		return steps
	}
	var script string
	var open bool // a node's command continues on the next line
	for line := range strings.Lines(text) {
		switch {
		case open:
			steps[len(steps)-1].command += line
		case isRun(line):
			if strings.TrimSpace(script) != "" {
				steps = append(steps, step{command: script})
			}
			script = ""
			steps = append(steps, step{command: line})
		default:
			script += line
			continue
		}
		open = strings.HasSuffix(line, "\\\n")
	}
	if strings.TrimSpace(script) != "" {
		steps = append(steps, step{command: script})
	}
	return steps
}

// isRun reports whether a command runs a node, which keeps running.
func isRun(command string) bool {
	return regexp.MustCompile(`^(tidings|go run \./cmd/tidings) run\b`).MatchString(command)
}

// run runs a block, and reports whether the output matched the page.
func (r *pageRunner) run(b block) bool {
	for _, s := range stepsIn(b.text) {
		var out string
		var ok bool
		switch {
		case isRun(s.command):
			out, ok = r.start(s.command)
		case strings.HasPrefix(s.command, "go build"):
			ok = r.compile(s.command)
		default:
			if strings.Contains(s.command, "tidings") && len(r.nodes) == 0 {
				if _, ok := r.start("tidings run\n"); !ok { // the page assumes that a node runs
					return false
				}
			}
			out, ok = r.script(s.command)
		}
		if !ok {
			return false
		}
		rest := out
		for _, want := range s.output {
			at := outputPattern(r.swap.Replace(want)).FindStringIndex(rest)
			if at == nil {
				r.t.Errorf("%s prints %q, and the page says %q", s.command, out, want)
				return false
			}
			rest = rest[at[1]:]
		}
		r.paste(out)
	}
	return true
}

// outputPattern matches a line of output as a page shows it: "…" stands for anything, and so do the digits before
// it.
func outputPattern(line string) *regexp.Regexp {
	const wild = "\x00"
	line = regexp.MustCompile(`[0-9A-Za-z]*…`).ReplaceAllString(line, wild)
	return regexp.MustCompile("(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line), wild, ".*") + "$")
}

// paste follows the guide to publishing: it inserts the element that "publish --metadata" prints into the feed,
// directly after <channel>.
func (r *pageRunner) paste(out string) {
	element := regexp.MustCompile(`(?m)^<.*>$`).FindString(out)
	if element == "" {
		return
	}
	for _, name := range []string{"feed.xml", "index.xml"} {
		name = filepath.Join(r.home, "public", name)
		b, err := os.ReadFile(name)
		if err != nil {
			r.t.Fatal(err)
		}
		b = bytes.Replace(b, []byte("<channel>"), []byte("<channel>"+element), 1)
		if err := os.WriteFile(name, b, 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// command returns a shell that runs a script of the page.
func (r *pageRunner) command(script string) *exec.Cmd {
	script = r.swap.Replace(script)
	if n := r.nodes[r.founder]; n != nil {
		script = regexp.MustCompile(`/ip4/[0-9./a-z-]*`+peerOfPage).ReplaceAllString(script, n.peer)
	}
	c := exec.Command(r.bash, "-euc", script)
	c.Dir = r.home
	c.Env = []string{"HOME=" + r.home, "PATH=" + filepath.Join(r.home, "stubs") + ":" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"TIDINGS_HTTP=" + r.swap.Replace("127.0.0.1:8190"), "TIDINGS_LISTEN=/ip4/127.0.0.1/tcp/0", "TIDINGS_ALLOW_PRIVATE_ORIGINS=true"}
	killWithParent(c)
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setpgid = true
	return c
}

// script runs commands that end. Processes that they leave in the background end with the page.
func (r *pageRunner) script(text string) (out string, ok bool) {
	if background := regexp.MustCompile(`(?m) &$`); background.MatchString(text) {
		text = background.ReplaceAllString(text, " >server.log 2>&1 &\nuntil curl -sf http://127.0.0.1:8000/ >/dev/null; do sleep 0.1; done")
	}
	var stdout, stderr bytes.Buffer
	c := r.command(text)
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			r.t.Errorf("%v\n%s%s", err, stdout.String(), stderr.String())
		}
		return stdout.String(), err == nil
	case <-time.After(2 * storyTime):
		r.t.Errorf("the commands do not end\n%s%s", stdout.String(), stderr.String())
		return "", false
	}
}

// start starts a node and returns its first lines. A node with the same folder is stopped before.
func (r *pageRunner) start(text string) (out string, ok bool) {
	dir := ""
	if m := regexp.MustCompile(`--data (\S+)`).FindStringSubmatch(text); m != nil {
		dir = m[1]
	}
	if strings.Contains(text, peerOfPage) && r.nodes[r.founder] == nil {
		if _, ok := r.start("tidings run --data founder --http none\n"); !ok { // a node of somebody else
			return "", false
		}
	}
	r.stop(dir)
	c := r.command("exec " + text)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	n := &docNode{cmd: c, ended: make(chan error, 1)}
	if r.nodes[dir] = n; dir != "" && !strings.Contains(text, peerOfPage) {
		r.founder = dir
	}
	lines := make(chan string, 64)
	go func() {
		for s := bufio.NewScanner(stdout); s.Scan(); {
			select {
			case lines <- s.Text():
			default: // the output is no longer needed
			}
		}
		close(lines)
		n.ended <- c.Wait()
	}()
	late := time.After(storyTime)
	for n.peer == "" {
		select {
		case line, ok := <-lines:
			if !ok {
				r.t.Errorf("the node ends at once: %v\n%s%s", <-n.ended, out, stderr.String())
				delete(r.nodes, dir)
				return out, false
			}
			out += line + "\n"
			if peer, ok := strings.CutPrefix(line, "peer "); ok {
				n.peer = strings.TrimSpace(peer)
			}
		case <-late:
			r.t.Errorf("the node says only %q", out)
			return out, false
		}
	}
	return out, true
}

// compile builds the program as a page says, once for all pages. In the fast tier it uses the test's own program,
// which go test has built from the same package.
func (r *pageRunner) compile(text string) bool {
	if !longtest.Long() {
		return true
	}
	r.build.mu.Lock()
	defer r.build.mu.Unlock()
	err, known := r.build.done[text]
	if !known {
		c := r.command(text)
		c.Dir, c.Env = r.root, append(os.Environ(), "PWD="+r.root)
		out, failed := c.CombinedOutput()
		if failed != nil {
			err = fmt.Errorf("%w\n%s", failed, out)
		}
		r.build.done[text] = err
	}
	if err != nil {
		r.t.Error(err)
	}
	return err == nil
}
