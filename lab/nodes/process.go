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

// A process is a house as the laboratory sees it.
type process struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	orders  *gob.Encoder
	reports *gob.Decoder
	empty   int // bytes resident before it held any node; 0: not known
}

// start starts a house.
func start(ctx context.Context, command *exec.Cmd) (*process, error) {
	p := &process{cmd: command}
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
	p.orders, p.reports = gob.NewEncoder(p.stdin), gob.NewDecoder(out)
	if _, err := p.do(ctx, order{Weigh: true}); err != nil {
		p.end()
		return nil, err
	}
	p.empty, _ = Resident(p.cmd.Process.Pid)
	return p, nil
}

// do gives an order and waits for the report. If ctx ends, so does the process, which
// was started with it.
func (p *process) do(ctx context.Context, o order) (r report, err error) {
	if err = p.orders.Encode(o); err == nil {
		err = p.reports.Decode(&r)
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

// die ends the nodes of a process in one of the ways.
func (p *process) die(ctx context.Context, way string) error {
	switch way {
	case Leave:
		_, err := p.do(ctx, order{Leave: true})
		return err
	case Silent:
		return freeze(p.cmd.Process)
	default:
		return p.cmd.Process.Kill()
	}
}

// end ends a process, whatever it does, and waits for that.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // by a signal, as was meant
}
