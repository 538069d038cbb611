import numpy as np, pytest
from numpy.testing import assert_allclose
from rankwise.two_sided.table_system import Side, TableSystem

def oracle(K,G,Y,given,alpha,compare):
    """dense: rows=cells"""
    n,m=Y.shape
    cells=np.flatnonzero(given.ravel())
    big=np.kron(K,G)[np.ix_(cells,cells)]
    group={'columns':cells//m,'rows':cells%m,'all':cells*0,'none':np.arange(len(cells))}[compare]
    L=np.eye(len(cells))
    if compare!='none':
        for g in np.unique(group):
            w=group==g
            L[np.ix_(w,w)]-=1/w.sum()
    a=np.linalg.solve(L@big+alpha*np.eye(len(cells)),L@Y.ravel()[cells])
    return (np.kron(K,G)[:,cells]@a).reshape(n,m)

rng=np.random.default_rng(0)
n,m=7,5
X,Z=rng.standard_normal((n,3)),rng.standard_normal((m,9))
kern=lambda X: np.exp(-.3*((X[:,None]-X[None])**2).sum(2))+X@X.T
K,G=kern(X),kern(Z)
Y=rng.standard_normal((n,m))

@pytest.mark.parametrize('compare',['columns','rows','none'])
@pytest.mark.parametrize('low',[False,True])
def test_all(compare,low):
    k=X@X.T if low else K
    rows=Side.of_features(X,centred=compare=='rows') if low else Side.of_kernel(K,centred=compare=='rows')
    cols=Side.of_kernel(G,centred=compare=='columns')
    s=TableSystem(rows,cols)
    alpha=.3
    full=np.ones((n,m),bool)
    want=oracle(k,G,Y,full,alpha,compare)
    got=rows.scores@(s.factors(alpha)*s.rotated(Y))@cols.scores.T
    assert_allclose(got,want,atol=1e-10)
    assert_allclose(k@s.coefficients(Y,alpha)@G,want,atol=1e-10)
    for i in range(n):
        g=full.copy(); g[i]=False
        assert_allclose(s.hold_out_rows(Y,alpha)[i],oracle(k,G,Y,g,alpha,compare)[i],atol=1e-9)
        for j in range(m):
            g=full.copy(); g[i,j]=False
            assert_allclose(s.hold_out_cells(Y,alpha)[i,j],oracle(k,G,Y,g,alpha,compare)[i,j],atol=1e-9)
    for j in range(m):
        g=full.copy(); g[:,j]=False
        assert_allclose(s.transposed.hold_out_rows(Y.T,alpha).T[:,j],oracle(k,G,Y,g,alpha,compare)[:,j],atol=1e-9)
    folds=[np.array([0,4]),np.array([1,2,3]),np.array([5]),np.array([6])]
    got=s.hold_out_rows(Y,alpha,folds)
    for f in folds:
        g=full.copy(); g[f]=False
        assert_allclose(got[f],oracle(k,G,Y,g,alpha,compare)[f],atol=1e-9)
    folds=[np.array([0,4]),np.array([1,2,3])]
    got=s.transposed.hold_out_rows(Y.T,alpha,folds).T
    for f in folds:
        g=full.copy(); g[:,f]=False
        assert_allclose(got[:,f],oracle(k,G,Y,g,alpha,compare)[:,f],atol=1e-9)
