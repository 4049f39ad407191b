"""X-ray: what a recurrent network remembers and where its gradients die; measures → figures → verdicts → report."""
