package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"tidings/internal/wire"
	"tidings/overlay"
)

// answerTime bounds the time of an order that sets no limit.
const answerTime = 10 * time.Second

// A process is a node in a process of its own.
type process struct {
	t       *testing.T
	name    string
	role    role
	addrs   []string   // addresses through which others join
	id      overlay.ID // known once it has joined
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	started chan struct{} // closed with the first event
	exited  chan struct{}

	mu      sync.Mutex
	orders  int
	waiting map[int]chan report
	got     map[delivery]int // number of deliveries of each message
	log     []byte           // the end of its log
}

// A delivery is a message as received by a subscriber.
type delivery struct {
	group   overlay.ID
	payload string
}

// laboratory returns the parameters of a network on loopback.
func laboratory(name string) wire.Network {
	n := wire.DefaultNetwork(name)
	n.PrivateAddresses = true
	return n
}

var anyPort = []string{"/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"}

// launch starts a node process, which is killed when the test ends.
func launch(t *testing.T, name string, r role) *process {
	t.Helper()
	written, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{
		t: t, name: name, role: r, cmd: exec.Command(os.Args[0]),
		started: make(chan struct{}), exited: make(chan struct{}),
		waiting: map[int]chan report{}, got: map[delivery]int{},
	}
	p.cmd.Env = append(os.Environ(), asNode+"="+string(written))
	p.cmd.Stderr = logTail{p}
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		p.listen(stdout)
		_ = p.cmd.Wait() // the error is in the process state, too
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("end of the log of node %s (%s):\n%s", p.name, p.id.Short(), p.log)
		}
	})
	return p
}

// ready waits until the process listens, and keeps its addresses for its next start.
func (p *process) ready() {
	p.t.Helper()
	select {
	case <-p.started:
	case <-p.exited:
		p.t.Fatalf("node %s ended at once", p.name)
	case <-time.After(30 * time.Second):
		p.t.Fatalf("node %s did not start", p.name)
	}
}

// restart starts a process again in its data directory and at its old ports, without other flags.
func (p *process) restart() *process {
	q := launch(p.t, p.name+"'", role{Dir: p.role.Dir, Listen: p.role.Listen, RefuseInbound: p.role.RefuseInbound})
	q.id = p.id
	return q
}

// kill kills the process as kill -9 does, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// listen receives the reports of the process until it ends.
func (p *process) listen(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			_, _ = logTail{p}.Write(append(lines.Bytes(), '\n')) // output of the Go runtime
			continue
		}
		p.receive(r)
	}
}

func (p *process) receive(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.N > 0:
		p.waiting[r.N] <- r
		delete(p.waiting, r.N)
	case r.Listens != nil:
		p.role.Listen, p.addrs = r.Listens, r.Addrs
		close(p.started)
	default:
		p.got[delivery{r.Group, r.Payload}]++
	}
}

// order sends an order. The answer comes on the channel, unless the process ends.
func (p *process) order(o order) <-chan report {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders++
	o.N = p.orders
	if o.Limit == 0 {
		o.Limit = answerTime
	}
	answer := make(chan report, 1)
	p.waiting[o.N] = answer
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		answer <- report{Err: err.Error()}
		delete(p.waiting, o.N)
	}
	return answer
}

// answer waits for the answer to an order.
func (p *process) answer(c <-chan report) (report, error) {
	select {
	case r := <-c:
		if r.Err != "" {
			return r, fmt.Errorf("node %s: %s", p.name, r.Err)
		}
		return r, nil
	case <-p.exited:
		return report{}, fmt.Errorf("node %s has ended", p.name)
	case <-time.After(2 * time.Minute):
		return report{}, fmt.Errorf("node %s does not answer", p.name)
	}
}

func (p *process) do(o order) (report, error) { return p.answer(p.order(o)) }

// status returns the node's status, an empty one if it does not answer.
func (p *process) status() Snapshot {
	r, err := p.do(order{Do: "status"})
	if err != nil {
		return Snapshot{}
	}
	p.id = r.Snapshot.ID
	return *r.Snapshot
}

// count returns how often the node received a message.
func (p *process) count(group overlay.ID, payload string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got[delivery{group, payload}]
}

// stop stops the process in good order, and returns an error if it fails to.
func (p *process) stop() error {
	if err := p.stdin.Close(); err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
		return fmt.Errorf("node %s does not stop", p.name)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("node %s ended with code %d", p.name, code)
	}
	return nil
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.log)
}

// logTail keeps the end of a process's log.
type logTail struct{ p *process }

func (l logTail) Write(b []byte) (int, error) {
	const most = 16 << 10
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.log = append(l.p.log, b...)
	if over := len(l.p.log) - most; over > 0 {
		l.p.log = append(l.p.log[:0], l.p.log[over:]...)
	}
	return len(b), nil
}

// within waits until missing returns nil, and returns how long that took. The error says what is still
// missing.
func within(t *testing.T, limit time.Duration, what string, missing func() error) time.Duration {
	t.Helper()
	begun := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for {
		err := missing()
		if err == nil {
			return time.Since(begun)
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
	}
}
