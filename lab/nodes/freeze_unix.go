//go:build unix

package nodes

import (
	"fmt"
	"os"
	"syscall"
)

// freeze stops a process, as SIGSTOP does.
func freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop a process: %w", err)
	}
	return nil
}
