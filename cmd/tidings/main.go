// Command tidings is a node of the network, and the client that talks to it.
//
//	tidings run                    runs a node: peer, poller, and what readers read
//	tidings subscribe URL…         subscribes, and prints the addresses to give to a reader
//	tidings unsubscribe URL…       ends subscriptions
//	tidings keygen FILE            makes a publisher's key
//	tidings publish URL            signs and pushes items of a feed
//	tidings trust URL…             believes that a publisher's key is another one
//	tidings list                   subscriptions and their health
//	tidings status                 the node in its network
//	tidings open                   an address at which a browser shows the node's pages
//	tidings doctor                 what is wrong, and what to do about it
//	tidings opml import|export     moves subscriptions in and out
//	tidings provision              plans a hosting centre for keyword subscriptions
//	tidings version                which tidings this is
//	tidings healthcheck            whether the node answers, for containers
//	tidings completion SHELL       a script that completes commands
//
// All but run, demo, keygen, provision, version and completion talk to the running node through its JSON interface,
// at --http.
//
// Scripts rely on the commands, their flags, the first words of the lines that run
// prints ("reader", "peer"), the objects that --json prints, and the exit codes: 0
// done; 1 failed, with a line on standard error for each failure, and indented
// lines below it for what can be done; 2 wrong usage, likewise.
// Everything else that is printed is for people.
//
// A setting comes from its flag, else from the environment (TIDINGS_HTTP for
// --http), else from config.toml (http = "…"), else it has its default.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if hangupEnds() {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// A usageError is a mistake in how the command was called.
type usageError struct {
	error
	command string // whose help explains it; empty: the program's
}

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{error: fmt.Errorf(format, args...)} }

// help is the command that explains the mistake.
func (e usageError) help() string { return strings.Join(nonempty("tidings", e.command, "--help"), " ") }

// multiple are failures of one command, each of which has a line of its own.
type multiple []error

func (m multiple) Error() string { return errors.Join(m...).Error() }

func (m multiple) Unwrap() []error { return m }

// A detailed is an error with lines that stand below it.
type detailed struct {
	error
	lines []string
}

func (d detailed) Unwrap() error { return d.error }

// tell prints an error. Nobody is left to tell if that fails.
func tell(stderr io.Writer, err error) {
	if m, ok := errors.AsType[multiple](err); ok {
		for _, e := range m {
			tell(stderr, e)
		}
		return
	}
	text := "tidings: " + oneLine(err.Error())
	if d, ok := errors.AsType[detailed](err); ok {
		text += ":"
		for _, l := range d.lines {
			text += "\n  " + oneLine(l)
		}
	}
	_, _ = fmt.Fprintln(stderr, text)
}

// run is the command. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := command(ctx, args, stdin, stdout, stderr)
	if err == nil {
		return exitDone
	}
	wrong, usage := errors.AsType[usageError](err)
	if usage {
		end := "; see"
		if strings.HasSuffix(err.Error(), "?") {
			end = " See"
		}
		err = fmt.Errorf("%w%s %s", err, end, wrong.help())
	}
	tell(stderr, err)
	if usage {
		return exitUsage
	}
	return exitFailed
}
