package process

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Cluster is a number of servers that are one cluster. A member keeps its data directory and its
// URLs for as long as the cluster lives, whichever binary it is run by.
type Cluster struct {
	// Members has the running servers; nil stands for one that is down.
	Members []*Server

	t       testing.TB
	dirs    []string
	clients []string
	peers   []string
	flags   []string
	// environment has variables of the members, set where they start.
	environment [][]string
}

// NewCluster gives a cluster with no member started. All of its servers get the flags.
func NewCluster(t testing.TB, size int, flags ...string) *Cluster {
	t.Helper()
	urls := FreeURLs(t, 2*size)
	cluster := &Cluster{
		Members: make([]*Server, size),
		t:       t,
		clients: urls[:size],
		peers:   urls[size:],
		flags:   flags,

		environment: make([][]string, size),
	}
	folder := t.TempDir()
	for i := range size {
		cluster.dirs = append(cluster.dirs, filepath.Join(folder, fmt.Sprintf("m%d", i)))
	}
	return cluster
}

// Spawn starts a member, or starts it again, and does not wait for it. The other members may have
// to be there before it gets ready.
func (c *Cluster) Spawn(i int, binary Binary, flags ...string) *Server {
	c.t.Helper()
	var all []string
	for j, peer := range c.peers {
		all = append(all, fmt.Sprintf("m%d=%s", j, peer))
	}
	arguments := []string{
		fmt.Sprintf("--name=m%d", i), "--data-dir=" + c.dirs[i],
		"--listen-client-urls=" + c.clients[i], "--advertise-client-urls=" + c.clients[i],
		"--listen-peer-urls=" + c.peers[i], "--initial-advertise-peer-urls=" + c.peers[i],
		"--initial-cluster=" + strings.Join(all, ","), "--initial-cluster-token=t",
	}
	arguments = append(append(arguments, c.flags...), flags...)
	c.Members[i] = spawn(c.t, binary, c.dirs[i], c.clients[i], c.environment[i], arguments)
	return c.Members[i]
}

// SetEnvironment sets variables that a member has when it is started the next time.
func (c *Cluster) SetEnvironment(i int, variables ...string) { c.environment[i] = variables }

// Start starts all members with one binary and waits until they are ready.
func (c *Cluster) Start(binary Binary, flags ...string) {
	c.t.Helper()
	for i := range c.Members {
		c.Spawn(i, binary, flags...)
	}
	for _, member := range c.Members {
		member.WaitReady()
	}
}

// URLs gives where the members serve clients, whether they run or not.
func (c *Cluster) URLs() []string { return c.clients }
