// Command slow is a workload that takes six seconds to stop, as one does that drains its connections. It exits with 0 if
// it was given the time.
package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	time.Sleep(6 * time.Second)
}
