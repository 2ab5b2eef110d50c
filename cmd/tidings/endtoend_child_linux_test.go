package main

import (
	"os/exec"
	"syscall"
)

// killWithParent makes the system kill a process when the test process ends, even if it crashes.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
