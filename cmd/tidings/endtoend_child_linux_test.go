package main

import (
	"os/exec"
	"syscall"
)

// diesWithUs has the system kill a process when the test is gone, however it went.
func diesWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
