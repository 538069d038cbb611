import numpy as np, pytest
from numpy.testing import assert_allclose
from rankwise.two_sided.two_sided_rankrls import TwoSidedRankRLS
from tests.two_sided.test_table_system import oracle
rng=np.random.default_rng(1)
n,m=12,9
R,C=rng.standard_normal((n,3)),rng.standard_normal((m,4))
Y=rng.standard_normal((n,m))
rbf=lambda X,Z,g: np.exp(-g*((X[:,None]-Z[None])**2).sum(2))
@pytest.mark.parametrize('compare',['columns','rows','all'])
@pytest.mark.parametrize('missing',[False,True])
@pytest.mark.parametrize('kind',['linear','rbf','mixed'])
def test_fit_equals_dense(compare,missing,kind):
    given=np.ones((n,m),bool)
    if missing: given=rng.random((n,m))<.7
    table=np.where(given,Y,np.nan)
    rk,ck={'linear':('linear','linear'),'rbf':('rbf','rbf'),'mixed':('linear','rbf')}[kind]
    f=TwoSidedRankRLS(.3,row_kernel=rk,column_kernel=ck,compare=compare,scale=False,tol=1e-12).fit(R,C,table)
    K=R@R.T if rk=='linear' else rbf(R,R,1/3); G=C@C.T if ck=='linear' else rbf(C,C,1/4)
    assert_allclose(f.predict(R,C),oracle(K,G,np.nan_to_num(table),given,.3,compare),atol=1e-8)
@pytest.mark.parametrize('compare',['columns','rows','all'])
@pytest.mark.parametrize('leave',['rows','columns','both','cells'])
@pytest.mark.parametrize('kind',['linear','rbf'])
def test_hold_outs_equal_refits(compare,leave,kind):
    ranker=TwoSidedRankRLS(.3,row_kernel=kind,column_kernel=kind,compare=compare,scale=False)
    h=ranker.hold_out(R,C,Y,leave=leave,alphas=[.3])
    K=R@R.T if kind=='linear' else rbf(R,R,1/3); G=C@C.T if kind=='linear' else rbf(C,C,1/4)
    for i in range(n):
        for j in range(m):
            g=np.ones((n,m),bool)
            if leave in('rows','both'): g[h.row_fold==h.row_fold[i]]=False
            if leave in('columns','both'): g[:,h.column_fold==h.column_fold[j]]=False
            if leave=='cells': g[i,j]=False
            assert_allclose(h.predictions[0,i,j],oracle(K,G,Y,g,.3,compare)[i,j],atol=1e-8)
    h.score()
def test_auto_and_weights():
    f=TwoSidedRankRLS().fit(R,C,R@rng.standard_normal((3,4))@C.T)
    assert f.alpha_curve_.score.min()<.2
    f=TwoSidedRankRLS(row_kernel=['rbf','linear'],row_weights='auto').fit([R,R],C,Y)
    assert f.row_weights_.sum()==1
    t=Y.copy(); t[rng.random(t.shape)<.3]=np.nan
    for new in ('rows','columns','both','cells'):
        TwoSidedRankRLS(for_new=new).fit(R,C,t)
    a=TwoSidedRankRLS(.1,row_kernel='rbf',column_kernel='rbf',n_landmarks=(6,5)).fit(R,C,Y); assert a.coef_.shape==(6,5)
    b=TwoSidedRankRLS(.1,row_kernel='rbf',column_kernel='rbf',n_landmarks=(6,5),tol=1e-12)
    h=b.hold_out(R,C,Y,leave='rows',alphas=[.1]); assert h.shared==('scaling','landmarks')
