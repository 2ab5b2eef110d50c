package main

import (
	"os/exec"
	"syscall"
)

// killWithParent has the system kill a process when the test is gone, however it went.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
