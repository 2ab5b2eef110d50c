package nodes

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// A process is a group of nodes as the laboratory sees it.
type process struct {
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	commands *gob.Encoder
	replies  *gob.Decoder
	emptyRSS int // resident bytes before it held any node; 0: unknown
}

// start starts a process.
func start(ctx context.Context, cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd}
	p.cmd.WaitDelay = time.Second
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a process for nodes: %w", err)
	}
	p.commands, p.replies = gob.NewEncoder(p.stdin), gob.NewDecoder(out)
	if _, err := p.send(ctx, command{Measure: true}); err != nil {
		p.kill()
		return nil, err
	}
	p.emptyRSS, _ = Resident(p.cmd.Process.Pid)
	return p, nil
}

// send sends a command and waits for the reply. If ctx ends, the process ends, too, because it was
// started with ctx.
func (p *process) send(ctx context.Context, o command) (r reply, err error) {
	if err = p.commands.Encode(o); err == nil {
		err = p.replies.Decode(&r)
	}
	switch {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case err != nil:
		return r, fmt.Errorf("a process with nodes has ended: %w", err)
	case r.Err != "":
		return r, errors.New(r.Err)
	}
	return r, nil
}

// exit ends the nodes of a process in one of the modes.
func (p *process) exit(ctx context.Context, way string) error {
	switch way {
	case Leave:
		_, err := p.send(ctx, command{Leave: true})
		return err
	case Silent:
		return freeze(p.cmd.Process)
	default:
		return p.cmd.Process.Kill()
	}
}

// kill kills a process and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()         // an error says that it was killed
}
