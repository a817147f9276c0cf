// Command slow is a workload that takes as long to stop as its argument says, as one does that drains its connections. It exits with 0 if
// it was given the time.
package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	takes, err := time.ParseDuration(os.Args[1])
	if err != nil {
		panic(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	time.Sleep(takes)
}
