package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// hangupEnds reports whether SIGHUP asks the program to end. It does so at a terminal, where the signal says that the
// window was closed, unless nohup has asked to ignore it. Anywhere else, as in a service, SIGHUP by custom asks a daemon
// to read its settings again.
func hangupEnds() bool {
	_, terminal := terminalWidth(os.Stdin)
	return terminal && !signal.Ignored(syscall.SIGHUP)
}

// ignoreHangups has the node go on when SIGHUP comes and does not ask it to end. The node cannot change settings while it
// runs, so the log says what to do instead. The caller calls done when the node has ended.
func ignoreHangups(log *slog.Logger) (done func()) {
	if hangupEnds() || signal.Ignored(syscall.SIGHUP) {
		return func() {}
	}
	hangups, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for range hangups {
			log.Warn("SIGHUP is ignored: restart the node to apply changed settings")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-ended
	}
}
