//go:build !linux

package main

import "os/exec"

// killWithParent is what Linux alone can promise; elsewhere the test's end kills its
// processes, and not its crash.
func killWithParent(*exec.Cmd) {}
