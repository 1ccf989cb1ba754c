// kpng runs one node of kpng: it follows the API server, decides for its node, and writes nftables rules.
//
// All that decides and writes is kpng's own, unmodified. Its command of the same name links each of its data planes, of which some need a
// compiler for BPF or IPVS; this one links the nft backend alone, and takes the flags that `kpng kube to-local to-nft` takes.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/kpng/client/backendcmd"
	"sigs.k8s.io/kpng/server/jobs/kube2store"
	"sigs.k8s.io/kpng/server/jobs/store2localdiff"
	"sigs.k8s.io/kpng/server/proxystore"

	_ "sigs.k8s.io/kpng/backends/nft" // registers itself, as the only one
)

func main() {
	klog.InitFlags(nil)
	kubeconfig := pflag.String("kubeconfig", "", "path of the kubeconfig")
	watched := &kube2store.K8sConfig{}
	watched.BindFlags(pflag.CommandLine)
	backend := backendcmd.Registered()[0].New()
	backend.BindFlags(pflag.CommandLine)
	pflag.CommandLine.AddGoFlagSet(flag.CommandLine)
	pflag.Parse()

	access, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store := proxystore.New()
	go kube2store.Job{Kube: kubernetes.NewForConfigOrDie(access), Store: store, Config: watched}.Run(ctx)
	job := store2localdiff.Job{Store: store, Sink: backend.Sink()}
	if err := job.Run(ctx); err != nil && ctx.Err() == nil {
		klog.Fatal(err)
	}
}
