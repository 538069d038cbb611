import numpy as np, pytest
from numpy.testing import assert_allclose
from rankwise.graph import PreferenceGraph
from rankwise.two_sided.cells import CellProducts, solve_cells, competing
rng=np.random.default_rng(0)
n,m=13,21
X,Z=rng.standard_normal((n,3)),rng.standard_normal((m,4))
K,G=np.exp(-((X[:,None]-X)**2).sum(2)),np.exp(-((Z[:,None]-Z)**2).sum(2))
given=rng.random((n,m))<.6
r,c=np.nonzero(given); p=rng.permutation(len(r)); r,c=r[p],c[p]
y=rng.integers(0,3,len(r)).astype(float)
big=K[np.ix_(r,r)]*G[np.ix_(c,c)]
def test_products():
    V=rng.standard_normal((len(r),2))
    assert_allclose(CellProducts.of(K,G,r,c)(V),big@V,atol=1e-12)
@pytest.mark.parametrize('compare',['columns','rows','all'])
@pytest.mark.parametrize('ties',['include','exclude'])
def test_solve(compare,ties):
    qid=competing(r,c,compare)
    g=PreferenceGraph.from_scores(y,qid,n_rows=len(y),ties=ties,weighting='rows')
    found,_=solve_cells(CellProducts.of(K,G,r,c),g,y,[.1,1.],tol=1e-12,max_iter=1000)
    L=np.zeros((len(y),)*2); q=np.zeros(len(y)) if qid is None else qid
    for i in range(len(y)):
        for j in range(len(y)):
            if i!=j and q[i]==q[j] and (ties=='include' or y[i]!=y[j]):
                w=1/(q==q[i]).sum(); L[i,i]+=w; L[i,j]-=w
    for a,found_a in zip([.1,1.],found):
        assert_allclose(found_a,np.linalg.solve(L@big+a*np.eye(len(y)),L@y),atol=1e-8)
