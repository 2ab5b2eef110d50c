package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/daemon"
	"tidings/internal/longtest"
)

// A prosody is an XMPP server for localhost.
type prosody struct {
	t       *testing.T
	program string
	dir     string
	port    string
	cmd     *exec.Cmd
	ended   chan struct{}
}

// startProsody starts a server with accounts whose password is "secret of" and their name.
func startProsody(t *testing.T, accounts ...string) *prosody {
	t.Helper()
	p := &prosody{t: t, program: checktest.Tool(t, "prosody", "it is the XMPP server of this test"), dir: t.TempDir(), port: checktest.Port(t)}
	p.write("localhost.crt", "localhost.key")
	for _, a := range accounts {
		file := filepath.Join(p.dir, "data", "localhost", "accounts", a+".dat")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "return { password = %q }\n", "secret of "+a), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings := fmt.Sprintf(`
run_as_root = true
daemonize = false
data_path = %[1]q
certificates = %[2]q
interfaces = { "127.0.0.1" }
c2s_ports = { %[3]s }
http_ports = {} https_ports = {} component_ports = {}
modules_enabled = { "roster", "saslauth", "tls", "disco", "offline" }
modules_disabled = { "s2s" }
authentication = "internal_plain"
c2s_require_encryption = true
log = { warn = "*console" }
VirtualHost "localhost"
`, filepath.Join(p.dir, "data"), p.dir, p.port)
	if err := os.WriteFile(filepath.Join(p.dir, "prosody.cfg.lua"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.start()
	return p
}

// write writes a certificate for localhost and its key.
func (p *prosody) write(certificate, key string) {
	p.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	now := time.Now()
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		p.t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		p.t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(filepath.Join(p.dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *prosody) certificate() string { return filepath.Join(p.dir, "localhost.crt") }

// start starts the server and waits until it listens.
func (p *prosody) start() {
	p.t.Helper()
	output := new(outputTail)
	p.cmd = exec.Command(p.program, "--config", filepath.Join(p.dir, "prosody.cfg.lua"), "-F")
	p.cmd.Stdout, p.cmd.Stderr = output, output
	killWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its output tells the rest
	}()
	eventually(p.t, timeout, "an XMPP server that listens", func() error {
		c, err := net.Dial("tcp", "127.0.0.1:"+p.port)
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return c.Close()
	})
}

// kill ends the server as kill -9 does.
func (p *prosody) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// A chatter is a person with an XMPP client.
type chatter struct {
	t     *testing.T
	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{}

	mu  sync.Mutex
	got []chatMessage
}

type chatMessage struct{ ID, From, Body string }

// join starts the client of an account of the server.
func (p *prosody) join(account string, program ...string) *chatter {
	p.t.Helper()
	c := &chatter{t: p.t, ended: make(chan struct{})}
	c.cmd = exec.Command(program[0], append(program[1:], account+"@localhost", "secret of "+account, "news@localhost", p.port, p.certificate())...)
	c.cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+p.certificate())
	errors := new(outputTail)
	c.cmd.Stderr = errors
	killWithParent(c.cmd)
	var err error
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		p.t.Fatal(err)
	}
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var m chatMessage
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				m.Body = lines.Text()
			}
			c.mu.Lock()
			c.got = append(c.got, m)
			c.mu.Unlock()
		}
		_ = c.cmd.Wait() // what it prints tells the rest
	}()
	p.t.Cleanup(c.leave)
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("%s heard %q\n%s", account, c.heard(), errors)
		}
	})
	c.awaitFor(3*timeout, "ready") // a client takes long to start while packages are compiled
	return c
}

// leave ends the client.
func (c *chatter) leave() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

func (c *chatter) say(text string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.input, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chatter) heard() []chatMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// await waits for a message that contains a text, and returns it.
func (c *chatter) await(text string) chatMessage {
	c.t.Helper()
	return c.awaitFor(timeout, text)
}

func (c *chatter) awaitFor(limit time.Duration, text string) (found chatMessage) {
	c.t.Helper()
	eventually(c.t, limit, "a message with "+text, func() error {
		got := c.heard()
		for _, m := range slices.Backward(got) {
			if strings.Contains(m.Body, text) {
				found = m
				return nil
			}
		}
		return fmt.Errorf("only %q", got)
	})
	return found
}

// news returns the titles of the articles that a person was told of by one client after the other, and fails if one came
// twice with another id.
func news(t *testing.T, clients ...*chatter) (titles []string) {
	t.Helper()
	ids := map[string]string{}
	var all []chatMessage
	for _, c := range clients {
		all = append(all, c.heard()...)
	}
	for _, m := range all {
		line, _, _ := strings.Cut(m.Body, "\n")
		_, title, ok := strings.Cut(line, "Feed /sun: ")
		if !ok || strings.Contains(line, "pieces of news") {
			continue
		}
		switch before, again := ids[title]; {
		case !again:
			ids[title] = m.ID
			titles = append(titles, title)
		case before != m.ID || m.ID == "":
			t.Errorf("%s came twice, as %q and as %q", title, before, m.ID)
		}
	}
	return titles
}

// TestMessenger lets people with two different clients follow a feed by messages. One of them is away for a while; the node
// and the server are killed meanwhile. Each is told of each article in order, and if one comes twice, it has the same id. A
// stranger gets no answer.
func TestMessenger(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	node := nodeWith(t, "@xmpp/client")
	python := "/usr/bin/python3"
	if err := exec.Command(python, "-c", "import slixmpp").Run(); err != nil {
		checktest.Lacks(t, "python3-slixmpp is not installed: it is a client of this test")
	}
	slixmpp := []string{python, filepath.Join(readersFolder, "chat.py")}
	npm := []string{node, filepath.Join(readersFolder, "chat.mjs")}

	server := startProsody(t, "news", "ann", "bob", "eve")
	o := &articleOrigin{feeds: map[string][]string{"/sun": {"Old news: of the sun"}}}
	web := httptest.NewServer(o)
	t.Cleanup(web.Close)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret of news\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &nodeProcess{t: t, dir: filepath.Join(t.TempDir(), "node"), env: []string{"SSL_CERT_FILE=" + server.certificate()}, flags: []string{
		"--allow-private-origins", "--network", "messenger", "--poll-interval", "1s",
		"--xmpp-jid", "news@localhost", "--xmpp-password-file", password, "--xmpp-server", "127.0.0.1:" + server.port,
		"--xmpp-allow", "ann@localhost", "--xmpp-allow", "bob@localhost",
	}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	http, listen := "127.0.0.1:"+checktest.Port(t), "/ip4/127.0.0.1/tcp/"+checktest.Port(t)
	n.start(self, http, listen)
	n.awaitMessenger()

	ann, bob, eve := server.join("ann", slixmpp...), server.join("bob", npm...), server.join("eve", npm...)
	eve.say("list")
	for _, c := range []*chatter{ann, bob} {
		c.say("subscribe " + web.URL + "/sun")
		c.await("You follow " + web.URL + "/sun from now on")
	}
	eventually(t, timeout, "the first article", func() error {
		if c := n.list()[web.URL+"/sun"]; c.Items != 1 {
			return fmt.Errorf("%d items", c.Items)
		}
		return nil
	})
	var want []string
	publish := func() string {
		title := fmt.Sprintf("Sunrise %d", len(want)+1)
		o.publish("/sun", title+": of the sun")
		want = append(want, title)
		return title
	}
	first := publish()
	ann.await(first)
	bob.await(first)

	bob.leave()
	for round := range longtest.Pick(0, 4) {
		title := publish()
		if round%2 == 0 {
			n.kill()
			publish()
			n.start(self, http, listen)
		} else {
			ann.await(title) // the next deliveries are under way when the server ends
			publish()
			server.kill()
			publish()
			server.start()
		}
	}
	last := publish()
	ann.await(last)
	if got := news(t, ann); !slices.Equal(got, want) {
		t.Errorf("ann was told of %q, want %q", got, want)
	}

	ann.say("list")
	ann.await("1. " + web.URL + "/sun")
	ann.say("pause")
	ann.await("I keep news back")
	before := bob
	bob = server.join("bob", npm...)
	bob.await(last)
	if got := news(t, before, bob); len(want) <= 10 && !slices.Equal(got, want) {
		t.Errorf("bob was told of %q, want %q", got, want)
	}

	bob.say("unsubscribe 1")
	bob.await("You do not follow")
	floods := longtest.Pick(1, 5)
	const flood = 2_000 // articles of one feed
	for i := range floods {
		path := fmt.Sprintf("/moon%d", i)
		o.publish(path, "Old news: of the moon")
		ann.say("subscribe " + web.URL + path)
		ann.await("You follow " + web.URL + path)
	}
	for i := range floods {
		path := fmt.Sprintf("/moon%d", i)
		for j := range flood {
			o.publish(path, fmt.Sprintf("Moonrise %d: of the moon", j+1))
		}
	}
	n.awaitEvents("Moonrise", floods*flood)
	ann.say("resume")
	digest := ann.await(fmt.Sprintf("%d pieces of news", floods*flood))
	if !strings.Contains(digest.Body, fmt.Sprintf("%d in Feed /moon0", flood)) || strings.Count(digest.Body, "Moonrise") != 5 {
		t.Errorf("the digest is %q", digest.Body)
	}
	ann.say("unsubscribe " + web.URL + "/sun")
	ann.await("You do not follow " + web.URL + "/sun any more")
	if c, follows := n.list()[web.URL+"/sun"]; follows {
		t.Errorf("nobody wants the feed any more, and the node follows it: %+v", c)
	}
	for _, m := range eve.heard() {
		if m.From != "" {
			t.Errorf("a stranger was told %q", m)
		}
	}
}

// TestRefusedLogin lets the doctor explain why a node is not logged in to an XMPP server. When the password is right, the node
// logs in.
func TestRefusedLogin(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	server := startProsody(t, "news")
	password := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(password, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("guess")
	flags := []string{"--xmpp-jid", "news@localhost", "--xmpp-password-file", password, "--xmpp-server", "127.0.0.1:" + server.port}
	n := startNode(t, flags...)
	awaitError := func(why string) {
		t.Helper()
		eventually(t, timeout, "a node that says why it is not connected", func() error {
			if s := n.status(); s.Messenger == nil || s.Messenger.Connected || !strings.Contains(s.Messenger.Error, why) {
				return fmt.Errorf("%+v", s.Messenger)
			}
			return nil
		})
	}
	awaitError("certificate") // that of the server is signed by nobody the node knows

	n.kill()
	n.env = []string{"SSL_CERT_FILE=" + server.certificate()}
	http, listen := n.http, "/ip4/127.0.0.1/tcp/"+checktest.Port(t)
	n.start(n.cmd.Path, http, listen)
	awaitError("the login was refused")
	for _, command := range []string{"doctor", "status"} {
		if out, _ := n.runCommand(command); !strings.Contains(out, "news@localhost") {
			t.Errorf("tidings %s prints %s", command, out)
		}
	}
	if out, _ := n.runCommand("doctor"); !strings.Contains(out, "refuses the login of news@localhost") || !strings.Contains(out, "--xmpp-password-file") {
		t.Errorf("the doctor says %s", out)
	}
	n.kill()
	write("secret of news\n")
	n.start(n.cmd.Path, http, listen)
	n.awaitMessenger()
	if out, err := n.runCommand("doctor"); err != nil || !strings.Contains(out, "the messenger news@localhost is connected") {
		t.Errorf("the doctor says %s, %v", out, err)
	}
}

// awaitEvents waits until so many events tell of something.
func (r *nodeProcess) awaitEvents(what string, number int) {
	r.t.Helper()
	token, err := daemon.ReadToken(daemon.APITokenFile(r.dir))
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.http+"/api/v1/events?after=0", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Tidings", "1")
	q.Header.Set("Tidings-Token", token)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") && strings.Contains(lines.Text(), what) {
			if number--; number == 0 {
				return
			}
		}
	}
	r.t.Fatalf("%d events with %s are missing: %v", number, what, lines.Err())
}

// awaitMessenger waits until the node is logged in.
func (r *nodeProcess) awaitMessenger() {
	r.t.Helper()
	eventually(r.t, timeout, "a node that is logged in to the XMPP server", func() error {
		if s := r.status(); s.Messenger == nil || !s.Messenger.Connected {
			return fmt.Errorf("%+v", s.Messenger)
		}
		return nil
	})
}
