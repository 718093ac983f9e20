// Package tools holds our command-line tools beside etcd's: the same commands, in the same order, on
// two servers that began alike. What they print, where they print it and how they end must be equal.
package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quorate.test/conformance/process"
)

// patience bounds every command; far more than it takes.
const patience = 30 * time.Second

// side is one of the two tools with its own server and its own folder.
type side struct {
	name   string
	tool   string
	url    string
	folder string
	// known has what differs between the sides by nature, and what stands for it.
	known [][2]string
	// captured has what was captured from this side's output, by name.
	captured map[string]string
}

// outcome is what a command did.
type outcome struct {
	stdout, stderr string
	code           int
}

// command is a line of a script.
type command struct {
	// line has the arguments. {URL}, {DIR} and what was captured are put in.
	line string
	// arguments are taken instead where they cannot be told apart by spaces.
	arguments []string
	stdin     string
	env       []string
	// capture has a name and, as its only group, a pattern for what is put in for {name} later, where
	// the output has it.
	capture [2]string
	// until ends a command that does not end by itself: a signal once its output matches this.
	until string
	// drop has patterns of what may differ, here alone.
	drop []string
	// loose says why the texts may differ here; only the exit code is compared.
	loose string
	// text says why stderr may differ here.
	text string
}

func (s *side) fill(text string) string {
	text = strings.ReplaceAll(text, "{URL}", s.url)
	text = strings.ReplaceAll(text, "{DIR}", s.folder)
	for name, value := range s.captured {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// run runs a command on one side.
func (s *side) run(t *testing.T, c command, flags []string) outcome {
	t.Helper()
	arguments := c.arguments
	if arguments == nil {
		arguments = strings.Fields(c.line)
	}
	filled := append([]string{}, flags...)
	for _, argument := range arguments {
		filled = append(filled, argument)
	}
	for i := range filled {
		filled[i] = s.fill(filled[i])
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	program := exec.CommandContext(ctx, s.tool, filled...)
	program.Dir = s.folder
	program.Stdin = strings.NewReader(s.fill(c.stdin))
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ETCDCTL_") {
			program.Env = append(program.Env, variable)
		}
	}
	for _, variable := range c.env {
		program.Env = append(program.Env, s.fill(variable))
	}
	var stderr bytes.Buffer
	stdout := &watched{until: c.until, found: func() { _ = program.Process.Signal(syscall.SIGTERM) }}
	program.Stdout, program.Stderr = stdout, &stderr
	err := program.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %v: %v", s.name, filled, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s %v did not end; it printed %q and %q", s.name, filled, stdout.buffer.String(), stderr.String())
	}
	return outcome{stdout.buffer.String(), stderr.String(), program.ProcessState.ExitCode()}
}

// watched is an output that something waits for. The buffer is no part of its interface: a copy would
// go past Write.
type watched struct {
	buffer bytes.Buffer
	until  string
	found  func()
}

func (w *watched) Write(more []byte) (int, error) {
	n, err := w.buffer.Write(more)
	if w.until != "" && regexp.MustCompile(w.until).MatchString(w.buffer.String()) {
		w.until = ""
		w.found()
	}
	return n, err
}

// Everywhere: times; the log lines of a client's own library, which say when it tried what again; and
// what commands and flags are for, which each side says in its own words.
var natural = []struct{ pattern, instead string }{
	{`took = [0-9.]+(µs|ms|s|m)+`, "took = TIME"},
	{`"took":"[0-9.]+(µs|ms|s|m)+"`, `"took":"TIME"`},
	{`in [0-9.]+(µs|ms|s)\b`, "in TIME"},
	{`took [0-9.]+(µs|ms|s)\b`, "took TIME"},
	{`│ *…*[0-9.]+(µs|ms|s)…* *│`, "│ TIME │"},
	{`"Took" : "?[0-9.]+(µs|ms|s)"?`, `"Took" : TIME`},
	{`(?m)^\{"level":.*\n`, ""},
	{`(?m)^[0-9T:-]+Z\t(info|warn)\t.*\n`, ""},
	{`(?ms)^Examples:\n.*?\n(Available Commands|Flags):`, "$1:"},
	{`(?m)^(  [a-z-]+) {2,}.*$`, "$1"},
	{`(?m)^(  [a-z]+-[a-z]+) [A-Z].*$`, "$1"},
	{`(?m)^(Global |)Flags:\n( +-.*\n)*`, "${1}Flags: …\n"},
}

// plain makes the texts of two sides comparable.
func (s *side) plain(text string, drop []string) string {
	for _, known := range s.known {
		text = strings.ReplaceAll(text, known[0], known[1])
	}
	if _, usage, found := strings.Cut(text, "\nUsage:\n"); found && !strings.HasPrefix(text, "Error:") {
		text = usage
	}
	for _, n := range natural {
		text = regexp.MustCompile(n.pattern).ReplaceAllString(text, n.instead)
	}
	for _, pattern := range drop {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, "…")
	}
	return text
}

// script runs commands on both sides, one after the other, and compares.
func script(t *testing.T, sides [2]*side, flags []string, commands []command) {
	t.Helper()
	for i, c := range commands {
		name := c.line
		if name == "" {
			name = strings.Join(c.arguments, " ")
		}
		t.Run(fmt.Sprintf("%03d %s", i, name), func(t *testing.T) {
			var outcomes [2]outcome
			for j, s := range sides {
				outcomes[j] = s.run(t, c, flags)
				if c.capture[0] != "" {
					s.remember(c.capture, outcomes[j].stdout)
				}
			}
			compare(t, sides, c, outcomes)
		})
	}
}

// remember captures what this side calls something that the other side calls otherwise.
func (s *side) remember(capture [2]string, text string) {
	found := regexp.MustCompile(capture[1]).FindStringSubmatch(text)
	if found == nil {
		return
	}
	value, instead := found[1], strings.ToUpper(capture[0])
	s.captured[capture[0]] = value
	s.known = append(s.known, [2]string{value, instead})
	if number, err := strconv.ParseUint(value, 16, 64); err == nil {
		s.known = append(s.known, [2]string{strconv.FormatUint(number, 10), instead})
	}
}

func compare(t *testing.T, sides [2]*side, c command, outcomes [2]outcome) {
	t.Helper()
	real, ours := outcomes[0], outcomes[1]
	if real.code != ours.code {
		t.Errorf("exit code: %d instead of %d", ours.code, real.code)
	}
	if c.loose == "" {
		difference(t, "stdout", sides[0].plain(real.stdout, c.drop), sides[1].plain(ours.stdout, c.drop))
		if c.text == "" {
			difference(t, "stderr", sides[0].plain(real.stderr, c.drop), sides[1].plain(ours.stderr, c.drop))
		}
	}
}

func difference(t *testing.T, where, want, have string) {
	t.Helper()
	if want != have {
		t.Errorf("%s differs\n--- etcd's\n%s\n--- ours\n%s\n(%q\n %q)", where, want, have, want, have)
	}
}

// servers starts two real servers that began alike, and gives the sides.
func servers(t *testing.T, tool string) [2]*side {
	t.Helper()
	var sides [2]*side
	for i, variable := range []string{"REAL_" + tool, tool} {
		folder := t.TempDir()
		server := process.Start(t, process.Real, filepath.Join(folder, "data"))
		sides[i] = &side{
			name: variable, tool: process.Tool(t, variable), url: server.URL, folder: folder,
			known:    [][2]string{{server.URL, "URL"}, {strings.TrimPrefix(server.URL, "http://"), "ADDRESS"}, {folder, "DIR"}},
			captured: map[string]string{},
		}
	}
	return sides
}
