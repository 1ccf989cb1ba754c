// Prints what client-go's shared informers see of services, endpointslices and nodes: one line for each change.
//
// The Python tests start it against the API server of the reference. It is there because most components of a cluster
// talk to the API server through these informers, which ask for more than a plain list and watch.
package main

import (
	"fmt"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var output sync.Mutex

func say(what, resource string, object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(what, resource, accessor.GetName(), accessor.GetResourceVersion())
}

func follow(resource string, informer cache.SharedIndexInformer) cache.SharedIndexInformer {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { say("ADDED", resource, object) },
		UpdateFunc: func(_, object any) { say("MODIFIED", resource, object) },
		DeleteFunc: func(object any) { say("DELETED", resource, object) },
	})
	if err != nil {
		panic(err)
	}
	return informer
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	if len(os.Args) > 2 { // the wire format to ask for
		config.AcceptContentTypes = os.Args[2]
		config.ContentType = os.Args[2]
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	services := follow("services", factory.Core().V1().Services().Informer())
	slices := follow("endpointslices", factory.Discovery().V1().EndpointSlices().Informer())
	nodes := follow("nodes", factory.Core().V1().Nodes().Informer())
	stop := make(chan struct{})
	factory.Start(stop)
	if !cache.WaitForCacheSync(stop, services.HasSynced, slices.HasSynced, nodes.HasSynced) {
		panic("never synced")
	}
	output.Lock()
	fmt.Println("SYNCED")
	output.Unlock()
	// The parent closes our standard input when it is done with us.
	_, _ = os.Stdin.Read(make([]byte, 1))
	close(stop)
}
